package replay

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search/exchange"
)

// Exchanged returns the configs of a recording as one space for each kernel. A config's time is the mean of its rounds.
func Exchanged(r *record.Recording) []*exchange.Space {
	var out []*exchange.Space
	for i := range r.Points {
		p := &r.Points[i]
		at := slices.IndexFunc(out, func(s *exchange.Space) bool { return s.Name == p.Config.Kernel })
		if at < 0 {
			at, out = len(out), append(out, &exchange.Space{Name: p.Config.Kernel})
		}
		out[at].Points = append(out[at].Points, exchanged(p, r.Search.Pace.Config))
	}
	slices.SortFunc(out, func(a, b *exchange.Space) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func exchanged(p *record.Point, prepare float64) exchange.Point {
	out := exchange.Point{Config: p.Config, Time: math.NaN(), Prepare: prepare, Failure: exchange.Invalidity(p.Status)}
	if p.Status != ep.OK {
		return out
	}
	for _, stretch := range p.Rounds {
		_, seconds := record.SecondsOf(stretch)
		out.Runs = append(out.Runs, seconds...)
	}
	if len(out.Runs) == 0 {
		out.Failure = exchange.Invalidity(ep.Unstable)
		return out
	}
	out.Time = stat.Mean(out.Runs, nil)
	return out
}
