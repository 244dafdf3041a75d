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
)

// measureFurtherSessions measures in further sessions what rows may state, and decides again by
// them. Memory is laid out anew in each session, which moves times by several per cent on GPUs.
// Sessions that had no part in the choice show what a caller will get. The searches
// take turns, so that the sessions of one search are far apart in time.
func (s *sweeper) measureFurtherSessions(ctx context.Context) error {
	for range s.harness.policy.Sessions {
		for _, c := range s.searches {
			if !c.result.Decision.Usable() {
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
		s.decideOverSessions(c)
	}
	for _, g := range s.groups() {
		if g = g.usable(); len(g) > 1 && g.crossed() {
			s.chooseForAllRoutings(g, g.measuredByAll(), g[0].minimax)
		}
	}
	return nil
}

// measureSession measures the default, its twin and configs in one more session, with neighbours
// from the finals in half of the rounds. Once ctx is cancelled nothing is measured.
func (s *sweeper) measureSession(ctx context.Context, c *activeSearch, configs []ep.Config) error {
	if ctx.Err() != nil {
		return nil
	}
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

// rowConfigs returns the configs that a row may state of a search: the winners of its group, what
// the group agreed on, and the runner-up.
func (s *sweeper) rowConfigs(c *activeSearch) []ep.Config {
	out := appendConfig([]ep.Config{c.result.Decision.Default}, c.result.Decision.Config)
	if others := c.conclusion.Others; len(others) > 0 && !c.result.Decision.KeepsDefault() && !c.state.Failed(others[0]) {
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

// decideOverSessions decides about a search again, by the sessions that had no part in the choice.
func (s *sweeper) decideOverSessions(c *activeSearch) {
	if len(c.furtherSessions) == 0 {
		return
	}
	was := c.result.Decision
	all := search.MergeSessions(c.furtherSessions)
	c.overSessions = c.versusDefault(all, len(c.furtherSessions))
	win, ok := c.versus(was.Config)
	if !ok {
		m := stat.Comparison{Config: was.Config, Default: was.Default, Gain: stat.Estimate{Interval: was.Gain}, Band: was.Band}
		c.result.Decision = stat.Fail(m, record.Failed, fmt.Sprintf("%s or the default failed in one of %d further sessions", was.Config.Key(), len(c.furtherSessions)))
		c.overSessions = map[string]versusDefault{}
		s.updateRun(c)
		return
	}
	c.aa.Sessions = sessionsAA(all, c.dflt)
	c.result.Decision, c.winner = c.decisionOverSessions(was, win)
	if c.result.Decision.KeepsDefault() {
		win.config = win.dflt
	}
	if x, ok := c.versus(c.result.Decision.Config); ok {
		win = x
	}
	c.result.Times, c.result.DefaultTime = win.config.Times, win.dflt.Times
	c.result.Beside = besidePair(c.runner, win.config.Point, win.dflt.Point)
	s.updateRun(c)
}

// sessionsAA compares the default with itself over sessions, nil if its twin failed.
func sessionsAA(all []search.Finalist, dflt int) *record.SessionsAA {
	base, twin := slices.IndexFunc(all, isPoint(dflt)), slices.IndexFunc(all, isPoint(search.Twin))
	if base < 0 || twin < 0 {
		return nil
	}
	return &record.SessionsAA{Ratio: all[twin].Gain(all[base]).Interval, Default: all[base].SessionSpread()}
}

// decisionOverSessions decides about the challenger of an earlier decision on the rounds of further
// sessions. The runner-up takes its place where it is faster. A default that was kept stays.
func (c *activeSearch) decisionOverSessions(was record.Decision, x versusDefault) (record.Decision, search.Finalist) {
	d, winner := was, c.winner
	if !was.KeepsDefault() {
		earlier := stat.Estimate{Interval: was.Gain}
		if others := c.conclusion.Others; len(others) > 0 && !was.Crossed {
			if y, ok := c.versus(c.space.Config(others[0])); ok && stat.Judge(y.config.Gain(x.config).Interval, was.Band.Width()) == record.Faster {
				x, earlier = y, stat.Estimate{}
			}
		}
		gain, warnings := x.config.Claim(x.dflt, earlier)
		band := was.Band
		if aa := c.aa.Sessions; aa != nil && (aa.Ratio.Low > 1 || aa.Ratio.High < 1) { // the default differs from itself
			band.AA = max(band.AA, math.Abs(aa.Ratio.Mid-1))
		}
		d = stat.Decide(stat.Comparison{Config: c.space.Config(x.config.Point), Default: was.Default, Gain: gain, Band: band})
		d.Crossed = was.Crossed
		winner = x.config
		winner.Warnings = warnings
		switch {
		case d.Reason != "":
		case d.KeepsDefault():
			d.Reason = fmt.Sprintf("%s was faster in the session of the search, and is not for certain in %d further ones: %.3f [%.3f, %.3f]",
				d.Challenger.Key(), x.sessions, gain.Mid, gain.Low, gain.High)
		default:
			d.Reason = was.Reason
		}
	}
	d.Rounds, d.Sessions = x.config.Rounds, x.sessions
	return d, winner
}
