package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// measureFurtherSessions measures what the rows will state in further sessions, where the options ask for
// that. With some libraries two sessions with one config differ by several per cent, in one
// process as in two, because memory is laid out anew in each. Sessions that had no part in
// the choice say what a caller will see. They take turns over all searches, so that those of
// one search are minutes apart. A time budget bounds the search, and not these.
func (s *sweeper) measureFurtherSessions(ctx context.Context) error {
	for range s.harness.policy.Sessions {
		for _, c := range s.searches {
			if err := s.measureSession(ctx, c); err != nil {
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
			s.chooseForAllRoutings(g, g.rowConfigs(), g[0].minimax)
		}
	}
	return nil
}

// measureSession measures the default and what a row may state of a search in one more session.
// Once ctx is cancelled nothing is measured.
func (s *sweeper) measureSession(ctx context.Context, c *activeSearch) error {
	if !c.result.Decision.Usable() || ctx.Err() != nil {
		return nil
	}
	var live []int
	for _, cfg := range c.rowConfigs() {
		live = append(live, c.space.Add(cfg))
	}
	finals, err := c.state.MeasureFresh(ctx, record.StageSession, live, s.harness.policy.ConfirmRounds)
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	switch {
	case errors.Is(err, search.ErrDefault): // restate withdraws the decision
		finals = nil
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	c.furtherSessions = append(c.furtherSessions, finals)
	return nil
}

// rowConfigs are the configs of a search that a row may state: the default, its own choice, and
// what its group agreed on.
func (c *activeSearch) rowConfigs() []ep.Config {
	d := c.result.Decision
	out := appendConfig([]ep.Config{d.Default}, d.Config)
	for _, cfg := range []ep.Config{c.minimax, c.compromise} {
		if _, measured := c.measured[cfg.Key()]; measured && !cfg.IsDefault() {
			out = appendConfig(out, cfg)
		}
	}
	return out
}

// rowConfigs are the configs that a row for all routings may state: those that every search
// of a group has measured.
func (g group) rowConfigs() []ep.Config {
	return slices.DeleteFunc(g[0].rowConfigs(), func(cfg ep.Config) bool {
		return slices.ContainsFunc(g, func(c *activeSearch) bool {
			_, measured := c.measured[cfg.Key()]
			return !measured
		})
	})
}

// decideOverSessions decides about a search again, by the sessions that had no part in the choice.
func (s *sweeper) decideOverSessions(c *activeSearch) {
	if len(c.furtherSessions) == 0 {
		return
	}
	c.overSessions = map[string]versusDefault{}
	all, was := search.MergeSessions(c.furtherSessions), c.result.Decision
	if base := slices.IndexFunc(all, isPoint(c.dflt)); base >= 0 {
		for _, f := range all {
			c.overSessions[c.space.Config(f.Point).Key()] = versusDefault{f, all[base], len(c.furtherSessions)}
		}
	}
	win, ok := c.overSessions[was.Config.Key()]
	if !ok {
		m := stat.Comparison{Config: was.Config, Default: was.Default, Gain: was.Gain, Band: was.Band}
		c.result.Decision = stat.Fail(m, record.Failed, fmt.Sprintf("%s or the default failed in one of %d further sessions", was.Config.Key(), len(c.furtherSessions)))
	} else {
		c.result.Decision = decisionOverSessions(was, win)
		if c.result.Decision.KeepsDefault() {
			win.config = win.dflt
		}
		c.result.Times, c.result.DefaultTime = win.config.Times, win.dflt.Times
		c.result.Beside = besidePair(c.runner, win.config.Point, win.dflt.Point)
	}
	s.updateRun(c)
}

// decisionOverSessions is the decision about the same challenger on the rounds of further sessions. A
// default that was kept stays.
func decisionOverSessions(was record.Decision, x versusDefault) record.Decision {
	d := was
	if !was.KeepsDefault() {
		d = stat.Decide(stat.Comparison{Config: was.Config, Default: was.Default, Gain: x.config.Gain(x.dflt), Band: was.Band})
		d.Crossed, d.Reason = was.Crossed, was.Reason
		if d.KeepsDefault() {
			d.Reason = fmt.Sprintf("%s was faster in the session of the search, and is not for certain in %d further ones", was.Config.Key(), x.sessions)
		}
	}
	d.Rounds, d.Sessions = x.config.Rounds, x.sessions
	return d
}
