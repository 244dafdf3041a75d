package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// edge is the smallest or largest declared value of a parameter, if the kernel also runs beyond it.
type edge struct {
	kernel, param string
	at, beyond    int
	values        []int
	winners       int
}

const fewestValues = 3

// edgeWarnings warns if a parameter's smallest or largest value is in at least half of a kernel's winners.
func (s *sweeper) edgeWarnings() []string {
	var found []*edge
	won := map[string]int{} // by kernel
	for _, c := range s.searches {
		d := c.result.Decision
		if c.problem.Op == ep.Pair || c.state == nil || c.sibling != nil || !d.Usable() || d.KeepsDefault() {
			continue
		}
		k, err := kernels.Find(s.harness.planner.kernels, c.problem.Op, d.Config.Kernel)
		if err != nil {
			continue
		}
		won[k.Name]++
		for _, q := range k.Params {
			if e, ok := s.edgeOf(c, k, q); ok {
				found = countEdge(found, e)
			}
		}
	}
	var out []string
	for _, e := range found {
		if n := won[e.kernel]; 2*e.winners >= n {
			out = append(out, e.warning(n))
		}
	}
	return out
}

func (s *sweeper) edgeOf(c *activeSearch, k kernels.Kernel, q kernels.Param) (e edge, ok bool) {
	pl, cfg := s.harness.planner, c.result.Decision.Config
	values := sortedInts(q.Values)
	_, given := pl.opts.Params[q.Name]
	if q.Class != kernels.Speed || given || pl.opts.Space.Values(k.Name, q.Name) != nil || len(values) < fewestValues || len(values) < len(q.Values) {
		return e, false
	}
	last := len(values) - 1
	at := slices.Index(values, cfg.Int(q.Name))
	e = edge{kernel: k.Name, param: q.Name, values: values, winners: 1}
	inside := 0
	switch at {
	case last:
		e.at, e.beyond, inside = values[last], 2*values[last]-values[last-1], values[last-1]
	case 0:
		e.at, e.beyond, inside = values[0], below(values[0], values[1]), values[1]
	default:
		return e, false
	}
	wider := cfg.With(q.Name, ep.Value(strconv.Itoa(e.beyond)))
	if e.beyond < 1 || pl.legal(k, c.problem)(wider) != "" || pl.smallEnough(k)(wider) != "" {
		return e, false
	}
	return e, c.isSlower(cfg, cfg.With(q.Name, ep.Value(strconv.Itoa(inside))), s.harness.policy.Band)
}

// below returns a value below a range whose smallest values are `least` and `next`.
func below(least, next int) int {
	if down := 2*least - next; down > 0 {
		return down
	}
	return least / 2
}

// isSlower reports whether a config is slower than the winner by more than the band, or was not measured.
func (c *activeSearch) isSlower(winner, other ep.Config, band float64) bool {
	w, known := c.space.Index(winner)
	i, there := c.space.Index(other)
	if !known || !there || math.IsInf(c.state.Score(i), 1) {
		return true
	}
	return c.state.Score(i)-c.state.Score(w) > math.Log1p(band)
}

func sortedInts(values []ep.Value) []int {
	var out []int
	for _, v := range values {
		if n, ok := v.Int(); ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func countEdge(found []*edge, e edge) []*edge {
	for _, f := range found {
		if f.kernel == e.kernel && f.param == e.param && f.at == e.at {
			f.winners++
			return found
		}
	}
	return append(found, &e)
}

func (e *edge) warning(won int) string {
	which := "largest"
	wider := append(slices.Clone(e.values), e.beyond)
	if e.beyond < e.at {
		which = "least"
	}
	slices.Sort(wider)
	var list []string
	for _, n := range wider {
		list = append(list, strconv.Itoa(n))
	}
	return fmt.Sprintf("%s of %s is %d, the %s value searched, in %d of the %d winners, and the kernel runs with %d too: sweep again with --param %s=%s",
		e.param, e.kernel, e.at, which, e.winners, won, e.beyond, e.param, strings.Join(list, ","))
}
