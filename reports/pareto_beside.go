package reports

import (
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

// BesidePareto holds two fronts: a call's time alone, and its cost beside a matrix product. The cost is the time of
// both minus the product's time alone.
type BesidePareto struct {
	Alone, Cost Pareto
	Phased      []*Entry // configs that send and receive in separate kernels
}

// BesideParetoOf computes both fronts; ok is false if no call ran beside a product.
func BesideParetoOf(c *Case) (out BesidePareto, ok bool) {
	var alone, cost Case
	alone, cost = *c, *c
	alone.Entries, cost.Entries = nil, nil
	for _, e := range c.Entries {
		t := e.together()
		if t == nil || !e.Timed() {
			continue
		}
		a, b := *e, *e
		s := stat.Beside(t)
		a.Level, b.Level = s.Call.Mid, s.Cost.Mid
		alone.Entries, cost.Entries = append(alone.Entries, &a), append(cost.Entries, &b)
	}
	out = BesidePareto{Alone: ParetoOf(&alone), Cost: ParetoOf(&cost)}
	for _, e := range out.Cost.All {
		if phased(e.Config) {
			out.Phased = append(out.Phased, e)
		}
	}
	return out, len(out.Cost.All) > 0
}

func (e *Entry) together() *ep.BesideRounds {
	var out *ep.BesideRounds
	for _, b := range e.Blocks {
		if b.Beside == nil {
			continue
		}
		if out == nil {
			out = &ep.BesideRounds{}
		}
		out.Append(b.Beside)
	}
	return out
}

func phased(c ep.Config) bool {
	halves := []ep.Config{c}
	if d, k, err := ep.Split(c); err == nil {
		halves = []ep.Config{d, k}
	}
	for _, h := range halves {
		if !strings.HasSuffix(h.Kernel, "_split") && h.Str("mode") != "split" {
			return false
		}
	}
	return true
}
