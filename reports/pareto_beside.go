package reports

import (
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

// BesidePareto is two fronts of one case on the same configs: the time of a call alone
// and its cost beside a product, against SMs.
type BesidePareto struct {
	Alone, Cost Pareto   // their entries are copies whose Level is that time
	Phased      []*Entry // of Cost: those that send and receive apart
}

// BesideParetoOf computes both fronts. ok is false where nothing ran beside the calls.
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

// together is all that was measured of an entry beside a product.
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

// phased reports whether a config sends and receives in kernels of its own: by its
// kernel's name, or by mode=split in every half.
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
