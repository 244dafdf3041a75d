package sweep

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
)

// pick is the choice for one token count and routing class.
type pick struct {
	tokens   int
	searches group
	config   ep.Config
	dflt     bool
	evidence table.Evidence
}

// stretch is adjacent token counts that share a config.
type stretch struct {
	picks  []pick
	lo, hi int
}

// rows makes the rows of all families.
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

// families lists the groups of each shape by token count.
func (s *sweeper) families() [][]group {
	var out [][]group
	shape := func(p ep.Problem) ep.Problem {
		p.Tokens, p.MaxTokens = 0, 0
		return p
	}
	for _, g := range s.groups() {
		i := slices.IndexFunc(out, func(f []group) bool { return shape(f[0][0].problem) == shape(g[0].problem) })
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], g)
	}
	return out
}

// classRows makes the rows of one class: a pick for each token count, equal
// neighbours merged, ends where the choice changes.
func (s *sweeper) classRows(ctx context.Context, family []group, class ep.Class) ([]table.Row, error) {
	var runs []stretch
	connected := false
	for _, g := range family {
		g = g.of(class)
		if len(g) == 0 {
			connected = false
			continue
		}
		var before ep.Config
		if connected {
			before = runs[len(runs)-1].picks[0].config
		}
		p := s.pick(g, class, before)
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

// of are the usable searches of a group that say something about a class. After
// an interrupt winners may not have been measured under each other's routings:
// then the first search speaks for its own class, and nothing for all.
func (g group) of(class ep.Class) group {
	g = g.usable()
	if class != ep.AllRoutings {
		g = slices.DeleteFunc(g, func(c *searcher) bool { return c.class != class })
	}
	switch {
	case len(g) < 2 || g.crossed():
		return g
	case class == ep.AllRoutings:
		return nil
	}
	return g[:1]
}

// choice is the config for a class: what the one search chose, the minimax
// config that the regret matrix records, or that of the searches of one class.
func (s *sweeper) choice(g group, class ep.Class, before ep.Config) (cfg ep.Config, worst float64) {
	switch {
	case len(g) == 1:
		return g[0].result.Decision.Config, 0
	case class == ep.AllRoutings:
		return g[0].minimax, float64(stat.Worst(g.effects(), g[0].minimax.Key()))
	}
	configs := g.winners()
	if compromise := g[0].compromise; !compromise.IsDefault() {
		configs = append(configs, compromise)
	}
	return s.minimax(g, configs, before)
}

// pick chooses for the searches of one token count.
func (s *sweeper) pick(g group, class ep.Class, before ep.Config) pick {
	cfg, worst := s.choice(g, class, before)
	// A caller's own default knows no bound on SMs: below a bound it is spelled out.
	dflt := s.opts.MaxSMs == 0 && cfg.Key() == g[0].result.Decision.Default.Key()
	p := pick{tokens: g[0].problem.Tokens, searches: g, config: cfg, dflt: dflt}
	for i, c := range g {
		e := c.evidence(cfg)
		if i == 0 || e.Gain < p.evidence.Gain {
			p.evidence = e
		}
	}
	p.evidence.Regret = worst
	p.evidence.Routings, p.evidence.Complete = nil, true
	for _, c := range g {
		p.evidence.Routings = append(p.evidence.Routings, c.routing.Spec())
		p.evidence.Complete = p.evidence.Complete && c.complete()
	}
	p.evidence.Tokens = []int{p.tokens}
	return p
}

// complete reports whether the whole legal space was measured. Pairs are made
// of winners and never are.
func (c *searcher) complete() bool {
	return c.problem.Op != ep.Pair && c.result.Tried >= c.result.Legal
}

// evidence is what a search says about a config.
func (c *searcher) evidence(cfg ep.Config) table.Evidence {
	r := &c.result
	e := table.Evidence{Clock: r.Clock, Tried: r.Tried, Legal: r.Legal, Ties: r.Ties, Date: c.runner.Latest()}
	times, gain := r.Times, r.Decision.Gain
	e.Rounds = r.Decision.Rounds
	if x, ok := c.seen[cfg.Key()]; ok && cfg.Key() != r.Decision.Config.Key() {
		times, gain, e.Rounds = x.config.Times, x.config.Gain(x.dflt, c.runner.Seed("gain")), x.config.Rounds
	}
	e.Median, e.P10, e.P90 = times.Median, times.P10, times.P90
	e.Gain, e.GainLow, e.GainHigh = gain.Mid, gain.Low, gain.High
	if i, ok := c.space.Index(cfg); ok {
		e.MaxErr = c.runner.MaxErr(i)
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
	row := table.Row{Key: table.KeyOf(least.searches[0].problem, class), Lo: r.lo, Hi: r.hi, Config: least.config, Default: least.dflt, Evidence: e}
	if row.Default {
		row.Config = ep.Config{}
	}
	return row
}
