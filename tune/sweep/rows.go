package sweep

import (
	"cmp"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
)

// A rowMaker makes the rows of a table from finished searches.
type rowMaker struct {
	groups      [][]group                // by table key, sorted by token count
	refinements map[string]*activeSearch // see refinementKey
	interrupted bool
	maxSMs      int
	protocol    int

	build     func(ep.Config) ep.ABI // of a config's kernels
	cost      func(ep.Op, ep.Config) ep.Cost
	incumbent func(*activeSearch, ep.Class) (ep.Config, bool)
	serves    func(ep.Problem, ep.Config) bool
}

func (s *sweeper) rowMaker() *rowMaker {
	return &rowMaker{
		groups: s.groupsByKey(), refinements: s.refinements, interrupted: s.done < len(s.plan.Searches), maxSMs: s.opts.MaxSMs, protocol: s.run.Protocol,
		build: s.run.ABI.For, incumbent: s.incumbent, cost: s.harness.cost,
		serves: func(p ep.Problem, c ep.Config) bool { return s.harness.legal(p, c) == nil },
	}
}

type rowChoice struct {
	tokens   int
	searches group
	config   ep.Config
	dflt     bool
	build    ep.ABI
	evidence table.Evidence
}

type tokenRange struct {
	picks  []rowChoice
	lo, hi int
	// joined is true if another range ends at the next smaller searched token count. It is false if that token count
	// has no usable searches.
	joined bool
}

func (r tokenRange) last() rowChoice { return r.picks[len(r.picks)-1] }

// sameRow reports whether one row can hold both choices. A row of the default can hold several token counts, even if
// the default has another config at each of them.
func (p rowChoice) sameRow(q rowChoice) bool {
	return p.dflt && q.dflt || p.dflt == q.dflt && p.config.Key() == q.config.Key()
}

func (m *rowMaker) rows() []table.Row {
	var out []table.Row
	for _, byTokens := range m.groups {
		if byTokens[0][0].problem.Op == ep.Layer { // no rows: table keys lack a layer's intermediate size
			continue
		}
		for _, class := range ep.Classes() {
			for _, r := range m.join(m.ranges(byTokens, class)) {
				out = append(out, r.row(class))
			}
		}
	}
	return out
}

// ranges returns the token ranges of one table key and class. A range reaches from a searched token count to another
// one. Token counts between two ranges belong to none; join fills these gaps. A range for all routings needs usable
// searches of all routings.
func (m *rowMaker) ranges(byTokens []group, class ep.Class) []*tokenRange {
	var out []*tokenRange
	joined := false
	for _, g := range byTokens {
		whole := len(g)
		g = g.forClass(class)
		if len(g) == 0 || class == ep.AllRoutings && (len(g) < max(whole, fewestForAll) || m.lacksRoutings(g, byTokens)) {
			joined = false
			continue
		}
		var before rowChoice
		if joined {
			before = out[len(out)-1].last()
		}
		config, ok := m.chooseConfig(g, class, before.config)
		if !ok {
			joined = false
			continue
		}
		p := m.makeChoice(g, config)
		if joined && p.sameRow(before) {
			r := out[len(out)-1]
			r.picks, r.hi = append(r.picks, p), p.tokens
		} else {
			out = append(out, &tokenRange{[]rowChoice{p}, p.tokens, p.tokens, joined})
		}
		joined = true
	}
	return out
}

const fewestForAll = 2

func (m *rowMaker) join(ranges []*tokenRange) (out []*tokenRange) {
	for _, r := range ranges {
		if r.joined {
			if between := m.meet(out[len(out)-1], r); between != nil {
				out = append(out, between)
			}
		}
		out = append(out, r)
	}
	return out
}

// forClass returns the usable searches of a class. The crossing measures the winner of each search under the routings
// of the other searches. If an interrupt prevented the crossing, forClass returns only the first search.
func (g group) forClass(class ep.Class) group {
	g = g.usable()
	if class != ep.AllRoutings {
		g = slices.DeleteFunc(g, func(c *activeSearch) bool { return c.class != class })
	}
	if len(g) < 2 || g.crossed() || class == ep.AllRoutings {
		return g
	}
	return g[:1]
}

// lacksRoutings reports whether an interrupted sweep has fewer routings here than at another token count.
func (m *rowMaker) lacksRoutings(g group, byTokens []group) bool {
	return m.interrupted && slices.ContainsFunc(byTokens, func(o group) bool { return len(o) > len(g) })
}

func (g group) measuredByAll() []ep.Config {
	dflt := g[0].result.Decision.Default
	out := []ep.Config{dflt}
	for _, key := range stat.MeasuredEverywhere(g.effects()) {
		if c, err := ep.ParseConfig(key); err == nil && key != dflt.Key() {
			out = append(out, c)
		}
	}
	return out
}

// chooseConfig returns the config of a class.
//   - One search: the config of its decision.
//   - Several searches of one class: the config with the least worst loss, among those that no search found slower
//     than the default.
//   - All routings: the minimax config, which has the least worst loss over routings.
//   - All routings after an interrupt: the config with the least worst loss, among those that all searches measured.
//     If this is the default, ok is false, because unmeasured configs may be faster.
func (m *rowMaker) chooseConfig(g group, class ep.Class, before ep.Config) (c ep.Config, ok bool) {
	switch {
	case len(g) == 1:
		return g[0].result.Decision.Config, true
	case class == ep.AllRoutings && g.crossed():
		return g[0].minimax, true
	case class == ep.AllRoutings:
		c, _ = m.leastWorstLoss(g, g.fasterSomewhere(g.measuredByAll()), m.tieOrder(g, class, before))
		return c, c.Key() != g[0].result.Decision.Default.Key()
	}
	configs := g.winners()
	if compromise := g[0].compromise; !compromise.IsDefault() {
		configs = append(configs, compromise)
	}
	fit := slices.DeleteFunc(g.fasterSomewhere(configs), func(c ep.Config) bool { return g.hasVerdict(record.Slower, c) })
	c, _ = m.leastWorstLoss(g, fit, m.tieOrder(g, class, before))
	return c, true
}

// tieOrder returns the keys of the configs that win ties. In a tie between two of them, the earlier one wins.
func (m *rowMaker) tieOrder(g group, class ep.Class, before ep.Config) []string {
	dflt := g[0].result.Decision.Default.Key()
	out := []string{dflt, before.Key()}
	if cfg, ok := m.incumbent(g[0], class); ok && !cfg.IsDefault() {
		out = slices.Insert(out, 0, cfg.Key())
	}
	return out
}

// leastWorstLoss returns the config whose largest loss under any routing is the smallest, and this loss. Among losses
// within the band, preferred configs win, then cheap configs.
func (m *rowMaker) leastWorstLoss(g group, configs []ep.Config, preferred []string) (best ep.Config, loss float64) {
	rank := func(c ep.Config) int {
		if i := slices.Index(preferred, c.Key()); i >= 0 {
			return i
		}
		return len(preferred)
	}
	op := g[0].problem.Op
	ordered := slices.SortedStableFunc(slices.Values(configs), func(a, b ep.Config) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), m.cost(op, a).Compare(m.cost(op, b)))
	})
	keys := make([]string, len(ordered))
	for i, c := range ordered {
		keys[i] = c.Key()
	}
	at, loss := stat.Minimax(g.effects(), keys, g.band())
	return ordered[at], loss
}

func (m *rowMaker) makeChoice(g group, cfg ep.Config) rowChoice {
	var all []table.Evidence
	for _, c := range g {
		e := c.evidence(cfg)
		if len(g) > 1 {
			e.Regret = float64(c.effects().Loss(cfg.Key()))
		}
		all = append(all, e)
	}
	dflt := cfg.Key() == g[0].result.Decision.Default.Key()
	out := rowChoice{tokens: g[0].problem.Tokens, searches: g, config: cfg, build: m.build(cfg), evidence: mergeEvidence(all)}
	out.evidence.Protocol = m.protocol
	explain(&out.evidence, g, cfg, dflt)
	out.dflt = dflt && m.maxSMs == 0 // with --max-sms, rows spell out the default
	return out
}

func explain(e *table.Evidence, g group, cfg ep.Config, dflt bool) {
	unsure := slices.ContainsFunc(g, func(c *activeSearch) bool { return !c.isRefinement && c.result.Decision.Verdict == record.Undecided })
	faster := stat.Judge(record.Interval{Mid: e.Gain, Low: e.GainLow, High: e.GainHigh}, g.band()) == record.Faster
	switch {
	case dflt && unsure:
		e.Reason = "kept"
	case !dflt && !faster && len(g) > 1:
		e.Reason = table.Compromise(len(g))
		e.Gain, e.GainLow, e.GainHigh = 1, 1, 1
	}
}

// mergeEvidence merges the evidence of one config. Times and gain come from the evidence with the least gain.
func mergeEvidence(all []table.Evidence) table.Evidence {
	out := slices.MinFunc(all, func(a, b table.Evidence) int { return cmp.Compare(a.Gain, b.Gain) })
	at, _ := out.At()
	out.Tokens, out.Between, out.Routings, out.TimedAt = nil, nil, nil, 0
	for _, e := range all {
		out.Tokens, out.Between = append(out.Tokens, e.Tokens...), append(out.Between, e.Between...)
		for _, spec := range e.Routings {
			if !slices.Contains(out.Routings, spec) {
				out.Routings = append(out.Routings, spec)
			}
		}
		out.Regret, out.MaxErr = max(out.Regret, e.Regret), max(out.MaxErr, e.MaxErr)
		out.Complete, out.Reason = out.Complete && e.Complete, cmp.Or(out.Reason, e.Reason)
		if e.Date.After(out.Date) {
			out.Date = e.Date
		}
	}
	slices.Sort(out.Between)
	out.Between = slices.Compact(out.Between)
	slices.Sort(out.Tokens)
	if out.Tokens = slices.Compact(out.Tokens); len(out.Tokens) > 1 {
		out.TimedAt = at
	}
	return out
}

func (c *activeSearch) complete() bool {
	if c.sibling != nil {
		return c.sibling.complete()
	}
	return c.problem.Op != ep.Pair && c.result.Tried >= c.result.Legal
}

func (c *activeSearch) evidence(cfg ep.Config) table.Evidence {
	r := &c.result
	times, gain, rounds, sessions := r.Times, r.Decision.Gain, r.Decision.Rounds, r.Decision.Sessions
	if x, ok := c.versus(cfg); ok && cfg.Key() != r.Decision.Config.Key() {
		times, gain, rounds, sessions = x.config.Times, x.config.Gain(x.dflt).Interval, x.config.Rounds, x.sessions
	}
	e := table.Evidence{
		Clock: r.Clock, Median: times.Median, P10: times.P10, P90: times.P90, Rounds: rounds,
		Gain: gain.Mid, GainLow: gain.Low, GainHigh: gain.High, Tried: r.Tried, Legal: r.Legal, Ties: r.Ties,
		Routings: []string{c.routing.Spec()}, Tokens: []int{c.problem.Tokens}, Complete: c.complete(), Date: c.date,
		Beside: c.problem.Beside, Sessions: sessions, MaxErr: c.maxErr[cfg.Key()],
	}
	if c.sibling != nil {
		e.Tried, e.Legal = c.sibling.result.Tried, c.sibling.result.Legal
	}
	if c.isRefinement {
		e.Tried, e.Complete, e.Between = len(c.known()), false, e.Tokens
	}
	return e
}

func (r tokenRange) row(class ep.Class) table.Row {
	first := r.picks[0]
	var all, searched []table.Evidence
	for _, p := range r.picks {
		all = append(all, p.evidence)
		if !p.searches[0].isRefinement {
			searched = append(searched, p.evidence)
		}
	}
	row := table.Row{Key: table.KeyOf(first.searches[0].problem, class), Lo: r.lo, Hi: r.hi, Default: first.dflt, Evidence: mergeEvidence(all), ABI: first.build}
	if len(searched) > 0 {
		by := mergeEvidence(searched)
		row.Evidence.Tried, row.Evidence.Legal, row.Evidence.Ties, row.Evidence.Complete = by.Tried, by.Legal, by.Ties, by.Complete
	}
	if !row.Default {
		row.Config = first.config
	}
	return row
}
