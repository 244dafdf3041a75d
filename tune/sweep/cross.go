package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
)

// A group holds the finished searches of one problem under all its routings.
type group []*activeSearch

func (s *sweeper) groups() []group {
	return groupBy[group](s.searches[:s.done], func(a, b *activeSearch) bool { return a.problem == b.problem })
}

func groupBy[G ~[]T, T any](list []T, alike func(a, b T) bool) []G {
	var out []G
	for _, x := range list {
		i := slices.IndexFunc(out, func(g G) bool { return alike(g[0], x) })
		if i < 0 {
			out, i = append(out, nil), len(out)
		}
		out[i] = append(out[i], x)
	}
	return out
}

// usable reports whether table rows may be made from a search.
func (c *activeSearch) usable() bool {
	d := c.result.Decision
	return d.Usable() || c.sessionsAhead && d.Cause == record.Noisy
}

func (g group) usable() group {
	return slices.DeleteFunc(slices.Clone(g), func(c *activeSearch) bool { return !c.usable() })
}

// crossAll measures the winners of all routings of a problem under each routing, and records the regret matrix. After
// ctx is cancelled, crossAll measures nothing.
func (s *sweeper) crossAll(ctx context.Context) error {
	for _, byTokens := range s.groupsByKey() {
		var before ep.Config
		for _, g := range byTokens {
			if g = g.usable(); len(g) > 1 {
				if err := s.crossGroup(ctx, g, before); err != nil {
					return err
				}
			}
			switch len(g) {
			case 0:
				before = ep.Config{}
			case 1:
				before = g[0].result.Decision.Config
			default:
				before = g[0].minimax
			}
		}
	}
	return nil
}

func (s *sweeper) crossGroup(ctx context.Context, g group, before ep.Config) error {
	configs := g.winners()
	if cfg, ok := s.incumbent(g[0], ep.AllRoutings); ok && !cfg.IsDefault() && s.harness.planner.admits(g[0].problem, cfg) {
		configs = appendConfig(configs, cfg)
	}
	if err := s.crossEach(ctx, g, configs); err != nil || !g.crossed() {
		return err
	}
	if compromise, ok := s.compromise(g, configs); ok {
		configs = append(configs, compromise)
		if err := s.crossEach(ctx, g, configs[len(configs)-1:]); err != nil || !g.crossed() {
			return err
		}
		for _, c := range g {
			c.compromise = compromise
		}
	}
	s.adoptFasterCrossed(g)
	s.chooseForAllRoutings(g, configs, before)
	return nil
}

func (s *sweeper) chooseForAllRoutings(g group, configs []ep.Config, before ep.Config) {
	m := s.rowMaker()
	best, _ := m.leastWorstLoss(g, g.fasterSomewhere(configs), m.tieOrder(g, ep.AllRoutings, before))
	var tuned []stat.TunedRouting
	for _, c := range g {
		c.minimax = best
		tuned = append(tuned, stat.TunedRouting{Routing: c.routing.Spec(), Config: c.result.Decision.Config, Effects: c.effects()})
	}
	s.run.Regrets = slices.DeleteFunc(s.run.Regrets, func(r record.Regret) bool { return r.Problem == g[0].problem })
	s.run.Regrets = append(s.run.Regrets, stat.NewRegret(g[0].problem, tuned, best))
}

func (s *sweeper) crossEach(ctx context.Context, g group, configs []ep.Config) error {
	for _, c := range g {
		if err := s.cross(ctx, c, append([]ep.Config{c.result.Decision.Default}, configs...)); err != nil {
			return err
		}
	}
	return nil
}

func (g group) crossed() bool {
	return !slices.ContainsFunc(g, func(c *activeSearch) bool { return c.crossingMissing })
}

// winners returns a group's chosen configs, the default first.
func (g group) winners() []ep.Config {
	out := []ep.Config{g[0].result.Decision.Default}
	for _, c := range g {
		out = appendConfig(out, c.result.Decision.Config)
	}
	return out
}

func appendConfig(configs []ep.Config, c ep.Config) []ep.Config {
	if slices.ContainsFunc(configs, func(o ep.Config) bool { return o.Key() == c.Key() }) {
		return configs
	}
	return append(configs, c)
}

func (g group) band() float64 {
	var widest float64
	for _, c := range g {
		widest = max(widest, c.result.Decision.Band.Width())
	}
	return widest
}

func (g group) effects() []stat.Effects {
	var out []stat.Effects
	for _, c := range g {
		out = append(out, c.effects())
	}
	return out
}

// compromise returns the measured config with the smallest worst loss over the routings of g. ok reports whether this
// loss is smaller, by more than the band, than the worst loss of every winner.
func (s *sweeper) compromise(g group, winners []ep.Config) (c ep.Config, ok bool) {
	var searched []stat.Effects
	for _, c := range g {
		searched = append(searched, c.screenedEffects())
	}
	keys := stat.MeasuredEverywhere(searched)
	at, guess := stat.Minimax(searched, keys, 0)
	_, worst := s.rowMaker().leastWorstLoss(g, winners, nil)
	if at < 0 || (1+guess)*(1+g.band()) >= 1+worst {
		return c, false
	}
	c, err := ep.ParseConfig(keys[at])
	return c, err == nil
}

func (c *activeSearch) screenedEffects() stat.Effects {
	out := stat.Effects{}
	for _, i := range c.state.Measured() {
		if score := c.state.Score(i); !math.IsInf(score, 1) {
			out[c.space.Config(i).Key()] = score
		}
	}
	return out
}

// fasterSomewhere returns the default, and the configs that beat it in some search. It drops the other configs, because
// noise would decide between them and the default.
func (g group) fasterSomewhere(configs []ep.Config) []ep.Config {
	dflt := g[0].result.Decision.Default.Key()
	return slices.DeleteFunc(slices.Clone(configs), func(cfg ep.Config) bool {
		return cfg.Key() != dflt && !g.hasVerdict(record.Faster, cfg)
	})
}

func (g group) hasVerdict(v record.Verdict, cfg ep.Config) bool {
	return slices.ContainsFunc(g, func(c *activeSearch) bool {
		d := c.result.Decision
		if cfg.Key() == d.Config.Key() {
			return d.Verdict == v && !d.KeepsDefault()
		}
		// The confirmation of this challenger was undecided. It counts more than the finals, which chose the challenger
		// and may show a lucky gain.
		if d.Verdict == record.Undecided && cfg.Key() == d.Challenger.Key() {
			return v == record.Undecided
		}
		x, ok := c.versus(cfg)
		return ok && stat.Judge(x.config.Gain(x.dflt).Interval, d.Band.Width()) == v
	})
}

// cross measures all `configs` in the same rounds, if at least one of them was never measured.
func (s *sweeper) cross(ctx context.Context, c *activeSearch, configs []ep.Config) error {
	var live, missing []int
	for _, cfg := range configs {
		point := c.space.Add(cfg)
		if slices.Contains(live, point) {
			continue
		}
		live = append(live, point)
		if _, seen := c.measured[cfg.Key()]; !seen {
			missing = append(missing, point)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if c.crossingMissing = ctx.Err() != nil; c.crossingMissing {
		return nil
	}
	finals, err := s.crossBlock(ctx, c, live, missing)
	if s.measuredAnew(c, err) {
		finals, err = s.crossBlock(ctx, c, live, missing)
	}
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	switch c.crossingMissing = err != nil && ctx.Err() != nil; {
	case c.crossingMissing, errors.Is(err, search.ErrDefault): // the new configs stay unmeasured
		return nil
	case err != nil:
		return err
	}
	c.keep(finals)
	c.crossings = append(c.crossings, finals)
	return nil
}

// adoptFasterCrossed changes a decision if the winner of another routing was faster. It keeps host-bound decisions, for
// which the kernels take hardly longer than an empty kernel.
func (s *sweeper) adoptFasterCrossed(g group) {
	for _, c := range g {
		was := c.result.Decision
		win, dflt, ok := c.fasterInCrossing()
		if !ok || was.Cause == record.HostBound {
			continue
		}
		d := stat.Decide(stat.Comparison{
			Config: c.space.Config(win.Point), Default: was.Default, Gain: win.Gain(dflt), Band: was.Band,
		})
		if d.KeepsDefault() {
			continue
		}
		d.Crossed = true
		d.Reason = fmt.Sprintf("measured together with the winners of other routings, %s is faster than this search's choice, %s", d.Config.Key(), was.Config.Key())
		c.result.Decision, c.winner = d, win
		c.result.Times, c.result.DefaultTimes, c.result.MaxErr = win.Times, dflt.Times, c.runner.MaxErr(win.Point)
		c.result.Beside = besidePair(c.runner, win.Point, dflt.Point)
		s.updateRun(c)
	}
}

func (s *sweeper) updateRun(c *activeSearch) {
	for i := range s.run.Searches {
		if r := &s.run.Searches[i]; r.Problem == c.problem && r.Routing == c.result.Routing {
			*r = c.result
		}
	}
	for i := range s.run.AA {
		if r := &s.run.AA[i]; r.Problem == c.aa.Problem && r.Routing == c.aa.Routing {
			*r = c.aa
		}
	}
}

// fasterInCrossing returns the winner of another routing that has the largest gain over this search's choice. dflt is
// the default in the same rounds.
func (c *activeSearch) fasterInCrossing() (win, dflt search.Finalist, ok bool) {
	own, _ := c.space.Index(c.result.Decision.Config)
	most := 0.0
	for _, finals := range c.crossings {
		mine, base := slices.IndexFunc(finals, isPoint(own)), slices.IndexFunc(finals, isPoint(c.dflt))
		if mine < 0 || base < 0 {
			continue
		}
		for _, f := range finals {
			gain := f.Gain(finals[mine]).Interval
			if f.Point != own && stat.Judge(gain, c.result.Decision.Band.Width()) == record.Faster && gain.Mid > most {
				win, dflt, ok, most = f, finals[base], true, gain.Mid
			}
		}
	}
	return win, dflt, ok
}

func isPoint(point int) func(search.Finalist) bool {
	return func(f search.Finalist) bool { return f.Point == point }
}

func (s *sweeper) crossBlock(ctx context.Context, c *activeSearch, live, missing []int) ([]search.Finalist, error) {
	finals, err := c.state.FinalsOf(ctx, s.protocol(c), record.StageCross, live)
	if err != nil {
		return nil, err
	}
	right, err := c.runner.Recheck(ctx, record.StageRecheck, missing)
	return slices.DeleteFunc(finals, func(f search.Finalist) bool { return slices.Contains(missing, f.Point) && !right[f.Point] }), err
}

func (s *sweeper) groupsByKey() [][]group {
	key := func(g group) table.Key { return table.KeyOf(g[0].problem, ep.AllRoutings) }
	return groupBy[[]group](s.groups(), func(a, b group) bool { return key(a) == key(b) })
}
