package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
)

// rowChoice is the choice for one token count and routing class.
type rowChoice struct {
	tokens   int
	searches group
	config   ep.Config
	dflt     bool
	build    ep.ABI // of the config's kernels
	evidence table.Evidence
}

// tokenRange is adjacent token counts that share a config.
type tokenRange struct {
	picks  []rowChoice
	lo, hi int
}

// last is the pick of the most tokens.
func (r tokenRange) last() rowChoice { return r.picks[len(r.picks)-1] }

// sameRow reports whether one row can hold both picks: both keep the default, which follows
// the token count, or both have the same config.
func (p rowChoice) sameRow(q rowChoice) bool {
	return p.dflt && q.dflt || p.dflt == q.dflt && p.config.Key() == q.config.Key()
}

// rows makes the rows of all families.
func (s *sweeper) rows(ctx context.Context) ([]table.Row, error) {
	var out []table.Row
	for _, family := range s.groupsByKey() {
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

// groupsByKey lists the groups of each key of a table by token count.
func (s *sweeper) groupsByKey() [][]group {
	key := func(g group) table.Key { return table.KeyOf(g[0].problem, ep.AllRoutings) }
	return groupBy[[]group](s.groups(), func(a, b group) bool { return key(a) == key(b) })
}

// classRows makes the rows of one class: a pick for each token count, equal
// neighbours merged, ends where the choice changes.
func (s *sweeper) classRows(ctx context.Context, family []group, class ep.Class) ([]table.Row, error) {
	var runs []tokenRange
	connected := false
	for _, g := range family {
		whole := len(g)
		g = g.forClass(class)
		if len(g) == 0 || class == ep.AllRoutings && (len(g) < whole || s.lacksRoutings(g, family)) {
			connected = false
			continue
		}
		var before rowChoice
		if connected {
			before = runs[len(runs)-1].last()
		}
		config, ok := s.chooseConfig(g, class, before.config)
		if !ok {
			connected = false
			continue
		}
		p := s.makeChoice(g, config)
		if connected && p.sameRow(before) {
			run := &runs[len(runs)-1]
			run.picks, run.hi = append(run.picks, p), p.tokens
		} else {
			next := tokenRange{[]rowChoice{p}, p.tokens, p.tokens}
			if connected {
				between, err := s.bound(ctx, &runs[len(runs)-1], &next)
				if err != nil {
					return nil, err
				}
				if between != nil {
					runs = append(runs, *between)
				}
			}
			runs = append(runs, next)
		}
		connected = true
	}
	var out []table.Row
	for _, r := range runs {
		out = append(out, r.row(class))
	}
	return out, nil
}

// forClass are the usable searches of a group that say something about a class. After
// an interrupt winners may not have been measured under each other's routings:
// then the first search speaks for its own class, and for all what the finals of
// all have in common.
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

// lacksRoutings reports whether a sweep that was ended early has fewer routings at this
// token count than at others: then nothing is said for all.
func (s *sweeper) lacksRoutings(g group, family []group) bool {
	return s.done < len(s.plan.Searches) && slices.ContainsFunc(family, func(o group) bool { return len(o) > len(g) })
}

// measuredByAll are the configs that every search of a group measured beside its default, the
// default first.
func (g group) measuredByAll() []ep.Config {
	dflt := g[0].result.Decision.Default
	out := []ep.Config{dflt}
	for _, key := range stat.MeasuredEverywhere(g.effects()) {
		if c, err := ep.ParseConfig(key); err == nil && key != dflt.Key() { // they are the keys of configs
			out = append(out, c)
		}
	}
	return out
}

// chooseConfig is the config for a class. One search speaks by what it chose, and several of one
// class by the config that loses least over them and is slower than the default in none. For
// all routings the regret matrix has that config. An interrupted sweep has no matrix: there
// the finals that all searches share give it. Where they give the default, ok is false: they
// do not prove that nothing is faster.
func (s *sweeper) chooseConfig(g group, class ep.Class, before ep.Config) (c ep.Config, ok bool) {
	switch {
	case len(g) == 1:
		return g[0].result.Decision.Config, true
	case class == ep.AllRoutings && g.crossed():
		return g[0].minimax, true
	case class == ep.AllRoutings:
		c, _ = s.leastWorstLoss(g, g.fasterSomewhere(g.measuredByAll()), s.tieOrder(g, class, before))
		return c, c.Key() != g[0].result.Decision.Default.Key()
	}
	configs := g.winners()
	if compromise := g[0].compromise; !compromise.IsDefault() {
		configs = append(configs, compromise)
	}
	fit := slices.DeleteFunc(g.fasterSomewhere(configs), func(c ep.Config) bool { return g.hasVerdict(record.Slower, c) })
	c, _ = s.leastWorstLoss(g, fit, s.tieOrder(g, class, before))
	return c, true
}

// makeChoice is a config for the token count of a group, with what the searches there
// say about it.
func (s *sweeper) makeChoice(g group, cfg ep.Config) rowChoice {
	var all []table.Evidence
	for _, c := range g {
		e := c.evidence(cfg)
		if len(g) > 1 {
			e.Regret = float64(c.effects().Loss(cfg.Key()))
		}
		all = append(all, e)
	}
	// A caller's own default knows no bound on SMs: below a bound it is spelled out.
	dflt := s.opts.MaxSMs == 0 && cfg.Key() == g[0].result.Decision.Default.Key()
	return rowChoice{tokens: g[0].problem.Tokens, searches: g, config: cfg, dflt: dflt, build: s.run.ABI.For(cfg), evidence: mergeEvidence(all)}
}

// mergeEvidence is the evidence of one config from several token counts or routings:
// times and gain where it gains least, the worst of the rest.
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
		out.Complete = out.Complete && e.Complete
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

// complete reports whether the whole legal space was measured. Pairs are made
// of winners and never are.
func (c *activeSearch) complete() bool {
	if c.sibling != nil {
		return c.sibling.complete()
	}
	return c.problem.Op != ep.Pair && c.result.Tried >= c.result.Legal
}

// evidence is what a search says about a config.
func (c *activeSearch) evidence(cfg ep.Config) table.Evidence {
	r := &c.result
	times, gain, rounds, sessions := r.Times, r.Decision.Gain, r.Decision.Rounds, r.Decision.Sessions
	if x, ok := c.versus(cfg); ok && cfg.Key() != r.Decision.Config.Key() {
		times, gain, rounds, sessions = x.config.Times, x.config.Gain(x.dflt), x.config.Rounds, x.sessions
	}
	e := table.Evidence{
		Clock: r.Clock, Median: times.Median, P10: times.P10, P90: times.P90, Rounds: rounds,
		Gain: gain.Mid, GainLow: gain.Low, GainHigh: gain.High, Tried: r.Tried, Legal: r.Legal, Ties: r.Ties,
		Routings: []string{c.routing.Spec()}, Tokens: []int{c.problem.Tokens}, Complete: c.complete(), Date: c.runner.Latest(),
		Beside: c.problem.Beside, Sessions: sessions,
	}
	if c.sibling != nil {
		e.Tried, e.Legal = c.sibling.result.Tried, c.sibling.result.Legal
	}
	if i, ok := c.space.Index(cfg); ok {
		e.MaxErr = c.runner.MaxErr(i)
	}
	if c.isRefinement {
		e.Tried, e.Complete, e.Between = len(c.measured), false, e.Tokens
	}
	return e
}

// row is a stretch as a row.
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
	if len(searched) > 0 { // how the config was found, whatever was measured of it between
		by := mergeEvidence(searched)
		row.Evidence.Tried, row.Evidence.Legal, row.Evidence.Ties, row.Evidence.Complete = by.Tried, by.Legal, by.Ties, by.Complete
	}
	if !row.Default {
		row.Config = first.config
	}
	return row
}

// noisyShare of the searches above which a machine is too noisy for a table.
const noisyShare = 0.25

// whyNoTable says why the searches make no table, "" where they do, and the largest A/A
// spread behind the rows.
func (s *sweeper) whyNoTable() (why string, spread float64) {
	noisy, usable := 0, 0
	for _, c := range s.searches {
		d := c.result.Decision
		if c.result.OK() && d.Band.Noisy() {
			noisy++
		}
		if d.Usable() {
			usable++
			spread = max(spread, c.aa.Spread)
		}
	}
	switch {
	case float64(noisy) > noisyShare*float64(len(s.searches)):
		return fmt.Sprintf("no table: in %d of %d searches the default against itself varies by more than the band of %.0f %%; "+
			"quiet the machine, or give each search more time with --budget", noisy, len(s.searches), 100*s.harness.policy.Band), spread
	case usable == 0:
		return "no table: " + s.unusableReason(), spread
	}
	return "", spread
}

// unusableReason counts the searches by cause. It is asked where no search can be used.
func (s *sweeper) unusableReason() string {
	count := map[record.Cause]int{}
	for _, c := range s.searches {
		count[c.result.Decision.Cause]++
	}
	all := len(s.searches)
	if count[record.NoDefault] == all {
		return "no default runs here"
	}
	var out []string
	for _, c := range []struct {
		cause record.Cause
		says  string
	}{
		{record.NoDefault, "the default does not run"},
		{record.Failed, "a config that was needed failed"},
		{record.Noisy, "too noisy to decide"},
	} {
		if n := count[c.cause]; n > 0 {
			out = append(out, fmt.Sprintf("%s (%d)", c.says, n))
		}
	}
	return fmt.Sprintf("no search can be used: %s; see summary.md", strings.Join(out, ", "))
}

// table makes the tuned table, or says why there is none.
func (s *sweeper) table(ctx context.Context) (*table.Table, string, error) {
	why, spread := s.whyNoTable()
	if why != "" {
		return nil, why, nil
	}
	rows, err := s.rows(ctx)
	if err != nil {
		return nil, "", err
	}
	log, err := record.HashLog(s.dir.Path())
	if err != nil {
		return nil, "", err
	}
	return &table.Table{
		Schema: table.Schema,
		Header: table.Header{
			Tool: s.opts.Tool, Created: time.Now(), ABI: s.run.ABI, Space: s.run.Space, Machine: s.run.Machine,
			Policy: s.run.Policy, Band: s.run.Band, AA: spread, TrialLog: log, Fallback: []string{"routing"}, MaxSMs: s.opts.MaxSMs,
			Hooks: kernels.SpellHooks(s.harness.planner.allKernels, s.opts.Params),
		},
		Rows: rows,
	}, "", nil
}

// ABI is the build of a backend's kernels, empty where it names none.
func ABI(b kernels.Backend) ep.ABI {
	if v, ok := b.(kernels.Versioned); ok {
		return v.ABI()
	}
	return ""
}
