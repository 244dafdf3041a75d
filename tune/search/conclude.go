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

// DecisionRules holds the rules by which a search decides after its finals, in sweeps and in
// replays.
type DecisionRules struct {
	Preference Preference
	Protocol   Protocol
	AA         record.AA // the A/A test of this search

	// HostBound gets the default's median time in seconds. It returns why launch parameters
	// cannot matter, or "" if they can matter. If HostBound is nil, they can matter.
	HostBound func(seconds float64) string
}

// A Conclusion is the result of a search.
type Conclusion struct {
	Decision record.Decision
	Winner   Finalist // the finalist of Decision.Config, measured in the confirmation
	Default  Finalist
	Ties     int           // number of finalists within the band of the fastest
	Others   []int         // other points of the confirmation: the runner-up, then up to Neighbours finalists, fastest first
	Earlier  stat.Estimate // the challenger's gain in the finals
}

// band returns the band of this search: the relative difference up to which two times count as
// equal.
func (r DecisionRules) band() record.Band {
	return record.Band{Policy: r.Protocol.Band, AA: r.AA.Spread}
}

// ErrNoFinalist says that every finalist, the default included, failed in the confirmation.
var ErrNoFinalist = errors.New("no finalist is left")

// Neighbours is the number of finalists that run in half of the rounds of a confirmation,
// besides the challenger, the runner-up and the default.
const Neighbours = 4

// Conclude picks a challenger from the finalists, measures it and the runner-up against the
// default once more, and decides. If the challenger fails in these rounds, Conclude drops it and
// picks the next challenger.
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

// confirmationPoints returns the points of a confirmation: the challenger and then the runner-up.
// neighbours are the finalists that run with them in half of the rounds. If the challenger is the
// default, only the default is measured.
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

// better returns the runner-up if the confirmation shows that it is faster than the challenger,
// else the challenger.
func (r DecisionRules) better(challenger, runnerUp, dflt Finalist) Finalist {
	if runnerUp.Rounds > 0 && dflt.Rounds > 0 && stat.Judge(runnerUp.Gain(challenger).Interval, r.band().Width()) == record.Faster {
		return runnerUp
	}
	return challenger
}

// decide decides whether the default or a challenger wins. `earlier` is the challenger's gain in the finals.
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
	Incumbent int // config of the table in use, -1 if the table has none
	Default   int
	Neighbour int               // winner of a neighbouring search, -1 if there is none
	Cost      func(int) ep.Cost // returns the cost of a point
}

// Choose picks a winner from finalists, which are sorted fastest first. Finalists within the band
// of the fastest tie with the fastest. Among the ties Choose takes the incumbent, else the default,
// else Neighbour, else the cheapest. The cheapest must tie for certain: its difference to the
// fastest plus two standard errors must still be within the band. If costs are equal, Choose takes
// the point with the lower index. It does not take the fastest of the ties, because among ties only
// luck makes one the fastest. winner and ties are indices of fs; winner is -1 if fs is empty.
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

// stdErrOfDifference returns the standard error of the difference between two effects.
func (f Finalist) stdErrOfDifference(g Finalist) float64 {
	return math.Hypot(stat.StdErr(f.adjusted), stat.StdErr(g.adjusted))
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
