package chart

import (
	"fmt"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
)

// LoadOf measures what a routing drew.
func LoadOf(w *workloads.Workload) Load {
	p := w.Problem
	l := Load{
		Title: fmt.Sprintf("%s, %d tokens a rank, %d experts, top-%d, %d ranks", w.Spec, p.Tokens, p.Experts, p.TopK, p.Ranks),
		Name:  slug(w.Spec, fmt.Sprintf("t%d-e%d-k%d-r%d", p.Tokens, p.Experts, p.TopK, p.Ranks)),
		Ranks: make([]int, p.Ranks),
	}
	for e, n := range w.TotalCounts() {
		l.Experts = append(l.Experts, int(n))
		l.Ranks[e/p.LocalExperts()] += int(n)
	}
	for _, row := range w.Rows(workloads.Dedup) {
		sent := make([]float64, len(row))
		for i, n := range row {
			sent[i] = float64(n)
		}
		l.Traffic = append(l.Traffic, sent)
	}
	return l
}

// Loads draws the routings of runs again, each shape at its largest token count.
// missing names those that cannot be drawn here, such as a trace whose file is
// elsewhere.
func Loads(runs []*reports.Loaded) (loads []Load, missing []string) {
	type id struct {
		group   group
		routing string
	}
	largest := map[id]*reports.Case{}
	var order []id
	for _, l := range ours(runs) {
		for _, c := range l.Cases {
			g := groupOf(c.Problem)
			g.Op, g.Dispatch = "", "" // the routing is the same for all
			k := id{g, c.Routing}
			old := largest[k]
			if old == nil {
				order = append(order, k)
			}
			if old == nil || c.Problem.Tokens > old.Problem.Tokens {
				largest[k] = c
			}
		}
	}
	for _, k := range order {
		w, err := redraw(largest[k])
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		loads = append(loads, LoadOf(w))
	}
	return loads, missing
}

// redraw makes a case's workload from its spec and seed.
func redraw(c *reports.Case) (*workloads.Workload, error) {
	d, err := workloads.Parse(c.Routing)
	if err != nil {
		return nil, err
	}
	return workloads.New(d, c.Problem, c.Seed)
}
