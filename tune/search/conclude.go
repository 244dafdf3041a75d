package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// DecisionRules is how a search with finalists comes to its decision. Sweeps and
// replays end the same way.
type DecisionRules struct {
	Preference Preference
	Protocol   Protocol
	AA         record.AA // of this search

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

// band is the least difference that counts in this search.
func (e DecisionRules) band() record.Band {
	return record.Band{Policy: e.Protocol.Band, AA: e.AA.Spread}
}

// ErrNoFinalist says that no finalist, the default included, lived through the
// confirmation.
var ErrNoFinalist = errors.New("no finalist is left")

// Conclude picks a challenger from the finalists, measures it against the
// default once more, and decides. A challenger that fails in these rounds is
// dropped and the next one is picked.
func (s *State) Conclude(ctx context.Context, finals []Finalist, e DecisionRules) (Conclusion, error) {
	finals = slices.Clone(finals)
	for len(finals) > 0 {
		at, ties := e.Preference.Choose(finals, e.band().Width())
		win, dflt, err := s.MeasureAgainstDefault(ctx, record.StageConfirm, finals[at].Point, e.Protocol.confirmRule(e.AA))
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

func (s *State) decide(win, dflt Finalist, ties int, e DecisionRules) Conclusion {
	m := stat.Comparison{
		Config: s.Space.Config(win.Point), Default: s.Space.Config(dflt.Point),
		Gain: win.Gain(dflt), Rounds: win.Rounds, Band: e.band(),
	}
	if e.HostBound != nil {
		m.HostBound = e.HostBound(dflt.Median)
	}
	out := Conclusion{Decision: stat.Decide(m), Winner: win, Default: dflt, Ties: ties}
	correlated := stat.CorrelationWarning(win.commonRounds(dflt))
	if out.Decision.KeepsDefault() {
		out.Winner = dflt
	}
	if correlated != "" {
		out.Winner.Warnings = append(out.Winner.Warnings, correlated)
	}
	return out
}

// Preference orders points that tie on time.
type Preference struct {
	Incumbent int               // row of the table in use, -1 where it has none
	Default   int               // the library default
	Neighbour int               // winner of a neighbouring search, -1 where there is none
	Cost      func(int) ep.Cost // of a point
}

// Choose picks from finalists, which are sorted fastest first. Finalists within
// the band of the fastest tie with it. Of these it takes the incumbent, else
// the default, else the neighbour, else the cheapest. The cheapest must be
// within the band by more than two standard errors of its difference: what drops out
// of the finals is beyond it by two. Equal costs go to the lower index. To take the
// fastest was not an option: the fastest of a tie is the luckiest, and would be another
// one tomorrow.
// winner and ties are indices of fs; winner is -1 where fs is empty.
func (p Preference) Choose(fs []Finalist, band float64) (winner int, ties []int) {
	if len(fs) == 0 {
		return -1, nil
	}
	var sure []int
	for i, f := range fs {
		over := f.Effect - fs[0].Effect
		if over > math.Log1p(band) {
			break
		}
		ties = append(ties, i)
		if i == 0 || p.priority(f.Point) < 3 || over+2*fs[0].stdErrOfDifference(f) <= math.Log1p(band) {
			sure = append(sure, i)
		}
	}
	return slices.MinFunc(sure, func(i, j int) int {
		a, b := fs[i].Point, fs[j].Point
		return cmp.Or(cmp.Compare(p.priority(a), p.priority(b)), p.Cost(a).Compare(p.Cost(b)), cmp.Compare(a, b))
	}), ties
}

// stdErrOfDifference is the standard error of the difference between two effects.
func (f Finalist) stdErrOfDifference(g Finalist) float64 {
	return math.Hypot(stat.StdErr(f.adjusted), stat.StdErr(g.adjusted))
}

// priority orders points by what they are.
func (p Preference) priority(point int) int {
	switch point {
	case p.Incumbent:
		return 0
	case p.Default:
		return 1
	case p.Neighbour:
		return 2
	}
	return 3
}
