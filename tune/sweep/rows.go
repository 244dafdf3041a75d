package sweep

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// pick is the choice for one token count and class.
type pick struct {
	tokens   int
	cells    []*cell
	config   ep.Config
	dflt     bool
	evidence table.Evidence
}

// run of adjacent token counts that share a config.
type stretch struct {
	picks  []pick
	lo, hi int
}

// rows makes the rows of all families: cells that differ in tokens and routing
// alone.
func (s *sweeper) rows(ctx context.Context) ([]table.Row, error) {
	var out []table.Row
	for _, family := range s.families() {
		for _, class := range ep.Classes() {
			rows, err := s.classRows(ctx, family, class)
			if err != nil {
				return nil, err
			}
			out = append(out, rows...)
		}
	}
	return out, nil
}

// families lists the cells by shape, then by token count.
func (s *sweeper) families() [][][]*cell {
	var out [][][]*cell
	shape := func(p ep.Problem) ep.Problem {
		p.Tokens, p.MaxTokens = 0, 0
		return p
	}
	for _, g := range s.groups() {
		i := slices.IndexFunc(out, func(f [][]*cell) bool { return shape(f[0][0].problem) == shape(g[0].problem) })
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], g)
	}
	return out
}

// classRows makes the rows of one class: a pick per token count, equal
// neighbours merged, ends at the crossovers.
func (s *sweeper) classRows(ctx context.Context, family [][]*cell, class ep.Class) ([]table.Row, error) {
	var runs []stretch
	connected := false
	for _, group := range family {
		usable := slices.DeleteFunc(slices.Clone(group), func(c *cell) bool {
			return c.outcome.Verdict == record.Failed || c.outcome.Verdict == record.Noisy || class != ep.AllRoutings && c.class != class
		})
		if usable = together(usable, class); len(usable) == 0 {
			connected = false
			continue
		}
		var before ep.Config
		if connected {
			before = runs[len(runs)-1].picks[0].config
		}
		p := s.pick(usable, before)
		if connected && p.config.Key() == before.Key() {
			last := &runs[len(runs)-1]
			last.picks, last.hi = append(last.picks, p), p.tokens
		} else {
			runs = append(runs, stretch{[]pick{p}, p.tokens, p.tokens})
			if connected {
				if err := s.bound(ctx, &runs[len(runs)-2], &runs[len(runs)-1]); err != nil {
					return nil, err
				}
			}
		}
		connected = true
	}
	var out []table.Row
	for _, r := range runs {
		out = append(out, r.row(class))
	}
	return out, nil
}

// together leaves of cells what can be judged together: all of them, unless an
// interruption kept choices from being measured under each other's routings.
// Then it is the first for a class of its own, none for any routing.
func together(cells []*cell, class ep.Class) []*cell {
	switch {
	case len(cells) < 2 || crossed(cells):
		return cells
	case class == ep.AllRoutings:
		return nil
	}
	return cells[:1]
}

// pick chooses for the cells of one token count.
func (s *sweeper) pick(cells []*cell, before ep.Config) pick {
	cfg, worst := s.minimax(cells, before)
	if len(cells) == 1 {
		cfg, worst = cells[0].outcome.Config, 0
	}
	// A runtime's own default knows no bound, so that below one it is spelled out.
	dflt := s.opts.MaxSMs == 0 && cfg.Key() == cells[0].outcome.Default.Key()
	p := pick{tokens: cells[0].problem.Tokens, cells: cells, config: cfg, dflt: dflt}
	for i, c := range cells {
		e := c.evidence(cfg)
		if i == 0 || e.Gain < p.evidence.Gain {
			p.evidence = e
		}
	}
	p.evidence.Regret = worst
	p.evidence.Routings, p.evidence.Complete = nil, true
	for _, c := range cells {
		p.evidence.Routings = append(p.evidence.Routings, c.dist.Spec())
		p.evidence.Complete = p.evidence.Complete && c.complete()
	}
	p.evidence.Tokens = []int{p.tokens}
	return p
}

// complete reports whether the whole legal space was covered; pairs are made
// of winners, and never are.
func (c *cell) complete() bool {
	return c.problem.Op != ep.Pair && c.outcome.Evaluations >= c.outcome.Legal
}

// evidence is what a cell says of a config.
func (c *cell) evidence(cfg ep.Config) table.Evidence {
	o := c.outcome
	e := table.Evidence{
		Clock: o.Clock, Median: o.Median, P10: o.P10, P90: o.P90, Rounds: o.Rounds, Gain: o.Gain, GainLow: o.GainLo, GainHigh: o.GainHi,
		Tried: o.Evaluations, Legal: o.Legal, Ties: o.Ties, Date: c.runner.Latest(),
	}
	if i, ok := c.space.Index(cfg); ok {
		e.MaxErr = c.runner.MaxErr(i)
	}
	if cfg.Key() == o.Config.Key() {
		return e
	}
	if x, ok := c.effects[cfg.Key()]; ok {
		g := x.f.Gain(x.base, c.runner.Seed("gain"))
		e.Median, e.P10, e.P90, e.Rounds = x.f.Median, x.f.P10, x.f.P90, x.f.Rounds
		e.Gain, e.GainLow, e.GainHigh = g.Mid, g.Lo, g.Hi
	}
	return e
}

// row is a stretch as a row: the evidence of the token count that gains least.
func (r stretch) row(class ep.Class) table.Row {
	least := r.picks[0]
	for _, p := range r.picks[1:] {
		if p.evidence.Gain < least.evidence.Gain {
			least = p
		}
	}
	e := least.evidence
	e.Tokens, e.Routings = nil, nil
	for _, p := range r.picks {
		e.Tokens = append(e.Tokens, p.evidence.Tokens...)
		e.Regret = max(e.Regret, p.evidence.Regret)
		e.Complete = e.Complete && p.evidence.Complete
		for _, spec := range p.evidence.Routings {
			if !slices.Contains(e.Routings, spec) {
				e.Routings = append(e.Routings, spec)
			}
		}
	}
	slices.Sort(e.Tokens)
	e.Tokens = slices.Compact(e.Tokens)
	row := table.Row{Key: table.KeyOf(least.cells[0].problem, class), Lo: r.lo, Hi: r.hi, Config: least.config, Default: least.dflt, Evidence: e}
	if row.Default {
		row.Config = ep.Config{}
	}
	return row
}
