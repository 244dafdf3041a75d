package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// measureFurtherSessions measures the configs that table rows may get (see rowConfigs) in further sessions, and decides
// again. Each session lays out memory anew, and this changes times on GPUs. Searches take turns, so that the sessions
// of a search lie far apart.
func (s *sweeper) measureFurtherSessions(ctx context.Context) error {
	for range s.harness.policy.Sessions {
		for _, c := range s.searches {
			if !c.usable() {
				continue
			}
			if err := s.measureSession(ctx, c, s.rowConfigs(c)); err != nil {
				return err
			}
		}
	}
	if s.harness.policy.Sessions == 0 || ctx.Err() != nil {
		return nil
	}
	for _, c := range s.searches {
		c.sessionsAhead = false
		s.decideOverSessions(c)
	}
	for _, g := range s.groups() {
		if g = g.usable(); len(g) > 1 && g.crossed() {
			s.chooseForAllRoutings(g, g.measuredByAll(), g[0].minimax)
		}
	}
	return nil
}

// measureSession measures the default, its twin (the default again) and `configs` in one more session.
func (s *sweeper) measureSession(ctx context.Context, c *activeSearch, configs []ep.Config) error {
	if ctx.Err() != nil {
		return nil
	}
	defer func(start time.Time) { s.harness.wall.Sessions += time.Since(start).Seconds() }(time.Now())
	live := []int{c.dflt, search.Twin}
	for _, cfg := range configs {
		if point := c.space.Add(cfg); point != c.dflt {
			live = append(live, point)
		}
	}
	others := slices.DeleteFunc(slices.Clone(c.conclusion.Others), func(point int) bool {
		return slices.Contains(live, point) || c.state.Failed(point)
	})
	finals, err := c.state.MeasureFresh(ctx, record.StageSession, live, others[:min(len(others), search.Neighbours)], s.harness.policy.ConfirmRounds)
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	switch {
	case errors.Is(err, search.ErrDefault): // decideOverSessions withdraws the decision
		finals = nil
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	c.furtherSessions = append(c.furtherSessions, finals)
	c.keepRunner()
	return nil
}

func (s *sweeper) rowConfigs(c *activeSearch) []ep.Config {
	d := c.result.Decision
	out := appendConfig(appendConfig([]ep.Config{d.Default}, d.Config), d.Challenger)
	if others := c.conclusion.Others; len(others) > 0 && !c.state.Failed(others[0]) {
		out = appendConfig(out, c.space.Config(others[0]))
	}
	for _, g := range s.groups() {
		if g = g.usable(); !slices.Contains(g, c) {
			continue
		}
		for _, cfg := range append(g.winners(), c.minimax, c.compromise) {
			if _, measured := c.measured[cfg.Key()]; measured && !cfg.IsDefault() {
				out = appendConfig(out, cfg)
			}
		}
	}
	return out
}

// decideOverSessions decides a search again, from its further sessions.
func (s *sweeper) decideOverSessions(c *activeSearch) {
	if len(c.furtherSessions) == 0 {
		return
	}
	was := c.result.Decision
	all := search.MergeSessions(c.furtherSessions)
	c.overSessions = c.versusDefault(all, len(c.furtherSessions))
	win, ok := c.versus(was.Challenger)
	if !ok {
		m := stat.Comparison{Config: was.Config, Default: was.Default, Gain: stat.Estimate{Interval: was.Gain}, Band: was.Band}
		c.result.Decision = stat.Fail(m, record.Failed, fmt.Sprintf("%s or the default failed in one of %d further sessions", was.Challenger.Key(), len(c.furtherSessions)))
		c.overSessions = map[string]versusDefault{}
		s.updateRun(c)
		return
	}
	c.aa.Sessions = search.AAOverSessions(all, c.dflt)
	c.conclusion.Default.Point = c.dflt
	c.result.Decision, c.winner = c.conclusion.DecideOverSessions(c.space, was, all, len(c.furtherSessions))
	c.result.Times, c.result.DefaultTimes = c.winner.Times, win.dflt.Times
	c.result.Beside = besidePair(c.runner, c.winner.Point, c.dflt)
	s.updateRun(c)
}
