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

// DecisionRules holds the rules of a decision.
type DecisionRules struct {
	Preference Preference
	Protocol   Protocol
	AA         record.AA // the A/A test of this search

	// HostBound gets the default's median time in seconds. It returns why the host limits this time, or "". HostBound
	// may be nil.
	HostBound func(seconds float64) string
}

// A Conclusion is the result of a search.
type Conclusion struct {
	Decision record.Decision
	Winner   Finalist // from the confirmation
	Default  Finalist
	Ties     int           // finalists within the band of the fastest
	Others   []int         // runner-up, then the further finalists of the confirmation, fastest first
	Earlier  stat.Estimate // the challenger's gain in the finals
}

func (r DecisionRules) band() record.Band {
	return record.Band{Policy: r.Protocol.Band, AA: r.AA.Spread}
}

// ErrNoFinalist says that every finalist failed in the confirmation.
var ErrNoFinalist = errors.New("no finalist is left")

// Neighbours limits the finalists in a confirmation besides challenger and runner-up.
const Neighbours = 4

// Conclude measures the best finalist (the challenger) and the runner-up against the default, and decides. If the
// challenger fails, Conclude takes another finalist.
func (s *State) Conclude(ctx context.Context, finals []Finalist, r DecisionRules) (Conclusion, error) {
	finals = slices.Clone(finals)
	for len(finals) > 0 {
		at, ties := r.Preference.Choose(finals, r.band().Width())
		challenger := finals[at]
		points, neighbours := s.confirmationPoints(finals, challenger.Point)
		all, err := s.confirm(ctx, record.StageConfirm, points, neighbours, r.Protocol.confirmRule(r.AA))
		if errors.Is(err, ErrDefault) {
			break
		}
		if err != nil {
			return Conclusion{}, err
		}
		win, dflt := pick(all, challenger.Point), pick(all, s.Default)
		if win.Rounds > 0 {
			win = r.better(win, pick(all, points[len(points)-1]), dflt)
			out := s.decide(win, dflt, pick(finals, win.Point).Gain(pick(finals, s.Default)), r)
			out.Ties, out.Others = len(ties), slices.Concat(points[1:], neighbours)
			return out, nil
		}
		finals = slices.Delete(finals, at, at+1)
	}
	return Conclusion{}, ErrNoFinalist
}

// confirmationPoints returns the challenger and the runner-up in `points`, and further finalists in `neighbours`. The
// confirmation measures `neighbours` in half of its rounds.
func (s *State) confirmationPoints(finals []Finalist, challenger int) (points, neighbours []int) {
	points = []int{challenger}
	if challenger == s.Default {
		return points, nil
	}
	for _, f := range finals {
		switch {
		case f.Point == challenger || f.Point == s.Default:
		case len(points) == 1:
			points = append(points, f.Point)
		case len(neighbours) < Neighbours:
			neighbours = append(neighbours, f.Point)
		}
	}
	return points, neighbours
}

// better returns the runner-up if it is certainly faster, else the challenger.
func (r DecisionRules) better(challenger, runnerUp, dflt Finalist) Finalist {
	if runnerUp.Rounds > 0 && dflt.Rounds > 0 && stat.Judge(runnerUp.Gain(challenger).Interval, r.band().Width()) == record.Faster {
		return runnerUp
	}
	return challenger
}

func (s *State) decide(win, dflt Finalist, earlier stat.Estimate, r DecisionRules) Conclusion {
	gain, warnings := win.Claim(dflt, earlier)
	m := stat.Comparison{Config: s.Space.Config(win.Point), Default: s.Space.Config(dflt.Point), Gain: gain, Band: r.band()}
	if r.HostBound != nil {
		m.HostBound = r.HostBound(dflt.Median)
	}
	out := Conclusion{Decision: stat.Decide(m), Winner: win, Default: dflt, Earlier: earlier}
	if out.Decision.KeepsDefault() {
		out.Winner = dflt
	}
	out.Winner.Warnings = append(out.Winner.Warnings, warnings...)
	return out
}

// Preference orders points whose times tie.
type Preference struct {
	Incumbent int // config of the table in use, or -1
	Default   int
	Neighbour int // winner of a neighbouring search, or -1
	Cost      func(int) ep.Cost
}

// Choose picks a winner from the finalists `fs`, sorted fastest first. Of those within the band of the fastest, it
// takes the incumbent, else the default, else Neighbour, else the cheapest. The cheapest must stay within the band even
// if two standard errors are added to its time, because noise may make a slower config look as fast. winner and ties
// are indices of fs. For an empty fs, winner is -1.
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

func (f Finalist) stdErrOfDifference(g Finalist) float64 {
	return math.Hypot(f.stdErr(), g.stdErr())
}

func (f Finalist) stdErr() float64 {
	return f.spread * math.Sqrt(math.Pi/2/float64(len(f.adjusted))) // see stat.StdErr
}

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
