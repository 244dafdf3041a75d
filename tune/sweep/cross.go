package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// group is the finished searches of one problem under all its routings.
type group []*activeSearch

// groups lists the groups by problem, in order.
func (s *sweeper) groups() []group {
	return groupBy[group](s.searches[:s.done], func(a, b *activeSearch) bool { return a.problem == b.problem })
}

// groupBy puts together what is alike, in the order of the first of each kind.
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

// usable are the searches that a table may rest on.
func (g group) usable() group {
	return slices.DeleteFunc(slices.Clone(g), func(c *activeSearch) bool { return !c.result.Decision.Usable() })
}

// crossAll measures the winners of all routings of a problem under each of
// them, so that regret is measured and not guessed. Then it chooses each
// group's minimax config and records the matrix. Once ctx is cancelled nothing
// is measured, and groups that lack something have no matrix.
func (s *sweeper) crossAll(ctx context.Context) error {
	for _, family := range s.groupsByKey() {
		var before ep.Config
		for _, g := range family {
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

// crossGroup completes one group. before is the minimax config at the next
// smaller token count: it wins ties.
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

// chooseForAllRoutings chooses the minimax config of a group among configs, and records the regret matrix.
func (s *sweeper) chooseForAllRoutings(g group, configs []ep.Config, before ep.Config) {
	best, _ := s.leastWorstLoss(g, g.fasterSomewhere(configs), s.tieOrder(g, ep.AllRoutings, before))
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

// crossed reports whether each winner of a group was measured, or failed,
// under every routing.
func (g group) crossed() bool {
	return !slices.ContainsFunc(g, func(c *activeSearch) bool { return c.crossingMissing })
}

// winners are the configs chosen in a group, the default first, each once.
func (g group) winners() []ep.Config {
	out := []ep.Config{g[0].result.Decision.Default}
	for _, c := range g {
		out = appendConfig(out, c.result.Decision.Config)
	}
	return out
}

// appendConfig appends a config to a list that lacks it.
func appendConfig(configs []ep.Config, c ep.Config) []ep.Config {
	if slices.ContainsFunc(configs, func(o ep.Config) bool { return o.Key() == c.Key() }) {
		return configs
	}
	return append(configs, c)
}

// band is the least difference that counts in every search of a group.
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

// compromise is a config that no search chose and that, as the searches saw
// it, loses less in the worst case than any winner does. A caller who knows
// nothing of the routing is served best by it.
func (s *sweeper) compromise(g group, winners []ep.Config) (c ep.Config, ok bool) {
	var searched []stat.Effects
	for _, c := range g {
		searched = append(searched, c.screenedEffects())
	}
	keys := stat.MeasuredEverywhere(searched)
	at, guess := stat.Minimax(searched, keys, 0)
	_, worst := s.leastWorstLoss(g, winners, nil)
	if at < 0 || (1+guess)*(1+g.band()) >= 1+worst {
		return c, false
	}
	c, err := ep.ParseConfig(keys[at])
	return c, err == nil // the keys are those of configs
}

// screenedEffects is what the search itself says about each config it measured.
func (c *activeSearch) screenedEffects() stat.Effects {
	out := stat.Effects{}
	for _, i := range c.state.Measured() {
		if score := c.state.Score(i); !math.IsInf(score, 1) {
			out[c.space.Config(i).Key()] = score
		}
	}
	return out
}

// fasterSomewhere are those configs that are faster than the default in one search of a group at
// least, and the default. Among the others noise decides: where no config is faster
// anywhere, the one that seems to lose least would take the default's row.
func (g group) fasterSomewhere(configs []ep.Config) []ep.Config {
	dflt := g[0].result.Decision.Default.Key()
	return slices.DeleteFunc(slices.Clone(configs), func(cfg ep.Config) bool {
		return cfg.Key() != dflt && !g.hasVerdict(record.Faster, cfg)
	})
}

// hasVerdict reports whether a search of a group gives a config this verdict beside its
// default, by the rule that decides every comparison.
func (g group) hasVerdict(v record.Verdict, cfg ep.Config) bool {
	return slices.ContainsFunc(g, func(c *activeSearch) bool {
		d := c.result.Decision
		if cfg.Key() == d.Config.Key() {
			return d.Verdict == v && !d.KeepsDefault()
		}
		x, ok := c.versus(cfg)
		return ok && stat.Judge(x.config.Gain(x.dflt), d.Band.Width()) == v
	})
}

// tieOrder are the configs that win ties, first things first: the row of the table in use,
// the default, the config at the next smaller token count.
func (s *sweeper) tieOrder(g group, class ep.Class, before ep.Config) []string {
	dflt := g[0].result.Decision.Default.Key()
	out := []string{dflt, before.Key()}
	if cfg, ok := s.incumbent(g[0], class); ok && !cfg.IsDefault() {
		out = slices.Insert(out, 0, cfg.Key())
	}
	return out
}

// leastWorstLoss is the config that loses least in the worst case over a group, and
// that loss. Within the band those that are preferred are taken first, then the
// cheapest.
func (s *sweeper) leastWorstLoss(g group, configs []ep.Config, preferred []string) (best ep.Config, loss float64) {
	rank := func(c ep.Config) int {
		if i := slices.Index(preferred, c.Key()); i >= 0 {
			return i
		}
		return len(preferred)
	}
	op := g[0].problem.Op
	ordered := slices.SortedStableFunc(slices.Values(configs), func(a, b ep.Config) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), s.harness.cost(op, a).Compare(s.harness.cost(op, b)))
	})
	keys := make([]string, len(ordered))
	for i, c := range ordered {
		keys[i] = c.Key()
	}
	at, loss := stat.Minimax(g.effects(), keys, g.band())
	return ordered[at], loss // the default at least was measured in every search
}

// cross measures those of the configs that a search has not measured, beside
// the others, and compares the new ones with the oracle afterwards: any of
// them may end up in a row.
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
	before := c.runner.Spent()
	finals, err := s.crossBlock(ctx, c, live, missing)
	if s.measuredAnew(c, err) {
		finals, err = s.crossBlock(ctx, c, live, missing)
	}
	s.spent += c.runner.Spent() - before
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	switch c.crossingMissing = err != nil && ctx.Err() != nil; {
	case c.crossingMissing, errors.Is(err, search.ErrDefault): // what was new stays unmeasured
		return nil
	case err != nil:
		return err
	}
	c.keep(finals)
	c.crossings = append(c.crossings, finals)
	return nil
}

// adoptFasterCrossed decides again about the searches of a group, where the crossing saw the config
// of another one faster here than the search's own, by the rule that decides every
// comparison. A search may have missed that config, or dropped it early. The decision
// itself changes, so that record, table and summary say the same. Where launch parameters
// cannot matter nothing is decided here either.
func (s *sweeper) adoptFasterCrossed(g group) {
	for _, c := range g {
		was := c.result.Decision
		win, dflt, ok := c.fasterInCrossing()
		if !ok || was.Cause == record.HostBound {
			continue
		}
		d := stat.Decide(stat.Comparison{
			Config: c.space.Config(win.Point), Default: was.Default, Gain: win.Gain(dflt), Rounds: win.Rounds, Band: was.Band,
		})
		if d.KeepsDefault() {
			continue
		}
		d.Crossed = true
		d.Reason = fmt.Sprintf("measured beside the winners of other routings, %s is faster than what this search chose, %s", d.Config.Key(), was.Config.Key())
		c.result.Decision, c.winner = d, win
		c.result.Times, c.result.DefaultTime, c.result.MaxErr = win.Times, dflt.Times, c.runner.MaxErr(win.Point)
		c.result.Beside = besidePair(c.runner, win.Point, dflt.Point)
		s.updateRun(c)
	}
}

// updateRun writes a search into the run again, after its result has changed.
func (s *sweeper) updateRun(c *activeSearch) {
	for i := range s.run.Searches {
		if r := &s.run.Searches[i]; r.Problem == c.problem && r.Routing == c.result.Routing {
			*r = c.result
		}
	}
}

// fasterInCrossing is the config that the crossings saw furthest ahead of a search's own, with the
// default in the same rounds. ok is false where none is.
func (c *activeSearch) fasterInCrossing() (win, dflt search.Finalist, ok bool) {
	own, _ := c.space.Index(c.result.Decision.Config)
	most := 0.0
	for _, finals := range c.crossings {
		mine, base := slices.IndexFunc(finals, isPoint(own)), slices.IndexFunc(finals, isPoint(c.dflt))
		if mine < 0 || base < 0 {
			continue
		}
		for _, f := range finals {
			gain := f.Gain(finals[mine])
			if f.Point != own && stat.Judge(gain, c.result.Decision.Band.Width()) == record.Faster && gain.Mid > most {
				win, dflt, ok, most = f, finals[base], true, gain.Mid
			}
		}
	}
	return win, dflt, ok
}

// isPoint finds the finalist at a point.
func isPoint(point int) func(search.Finalist) bool {
	return func(f search.Finalist) bool { return f.Point == point }
}

// crossBlock times configs beside each other and drops those of the new ones
// whose answers are wrong afterwards.
func (s *sweeper) crossBlock(ctx context.Context, c *activeSearch, live, missing []int) ([]search.Finalist, error) {
	finals, err := c.state.FinalsOf(ctx, s.protocol(c), record.StageCross, live)
	if err != nil {
		return nil, err
	}
	right, err := c.runner.Recheck(ctx, record.StageRecheck, missing)
	return slices.DeleteFunc(finals, func(f search.Finalist) bool { return slices.Contains(missing, f.Point) && !right[f.Point] }), err
}
