package search

import (
	"context"
	"errors"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// Ending is how a search with finalists comes to its decision. Sweeps and
// replays end the same way.
type Ending struct {
	Preference Preference
	Protocol   Protocol
	AA         record.AA // of this search
	Seed       uint64    // of the interval of the gain

	// HostBound says why launch parameters cannot matter, given the default's
	// median in seconds; "" where they can. Nil never says so.
	HostBound func(seconds float64) string
}

// Conclusion is how a search ended.
type Conclusion struct {
	Decision record.Decision
	Winner   Finalist // of Decision.Config, in the confirming rounds
	Default  Finalist
	Ties     int // finalists within the band of the fastest
}

// ErrNoFinalist says that no finalist, the default included, lived through the
// confirmation.
var ErrNoFinalist = errors.New("no finalist is left")

// Conclude picks a challenger from the finalists, measures it against the
// default once more, and decides. A challenger that fails in these rounds is
// dropped and the next one is picked.
func (s *State) Conclude(ctx context.Context, finals []Finalist, e Ending) (Conclusion, error) {
	finals = slices.Clone(finals)
	for len(finals) > 0 {
		at, ties := e.Preference.Choose(finals, e.Protocol.Band)
		win, dflt, err := s.Duel(ctx, record.StageConfirm, finals[at].Point, e.Protocol.confirming(e.AA))
		if errors.Is(err, ErrDefault) {
			break
		}
		if err != nil {
			return Conclusion{}, err
		}
		if win.Rounds > 0 {
			return s.decide(win, dflt, len(ties), e), nil
		}
		finals = slices.Delete(finals, at, at+1)
	}
	return Conclusion{}, ErrNoFinalist
}

func (s *State) decide(win, dflt Finalist, ties int, e Ending) Conclusion {
	m := stat.Match{
		Config: s.Space.Config(win.Point), Default: s.Space.Config(dflt.Point),
		Gain: win.Gain(dflt, e.Seed), Rounds: win.Rounds, Band: record.Band{Policy: e.Protocol.Band, AA: e.AA.Spread},
	}
	if e.HostBound != nil {
		m.HostBound = e.HostBound(dflt.Median)
	}
	out := Conclusion{Decision: stat.Decide(m), Winner: win, Default: dflt, Ties: ties}
	if out.Decision.KeepsDefault() {
		out.Winner = dflt
	}
	return out
}
