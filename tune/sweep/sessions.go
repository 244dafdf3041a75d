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

// inSessions measures what the rows will state in further sessions, where the options ask for
// that. With some libraries two sessions with one config differ by several per cent, in one
// process as in two, because memory is laid out anew in each. Sessions that had no part in
// the choice say what a caller will see. They take turns over all searches, so that those of
// one search are minutes apart. A time budget bounds the search, and not these.
func (s *sweeper) inSessions(ctx context.Context) error {
	for range s.lab.policy.Sessions {
		for _, c := range s.searches {
			if err := s.measureAgain(ctx, c); err != nil {
				return err
			}
		}
	}
	if s.lab.policy.Sessions == 0 || ctx.Err() != nil {
		return nil
	}
	for _, c := range s.searches {
		s.restate(c)
	}
	for _, g := range s.groups() {
		if g = g.usable(); len(g) > 1 && g.crossed() {
			s.agree(g, g.shareable(), g[0].minimax)
		}
	}
	return nil
}

// measureAgain measures the default and what a row may state of a search in one more session.
// Once ctx is cancelled nothing is measured.
func (s *sweeper) measureAgain(ctx context.Context, c *searcher) error {
	if !c.result.Decision.Usable() || ctx.Err() != nil {
		return nil
	}
	var live []int
	for _, cfg := range c.statable() {
		live = append(live, c.space.Add(cfg))
	}
	finals, err := c.state.Apart(ctx, record.StageSession, live, s.lab.policy.ConfirmRounds)
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
	c.again = append(c.again, finals)
	return nil
}

// statable are the configs of a search that a row may state: the default, its own choice, and
// what its group agreed on.
func (c *searcher) statable() []ep.Config {
	d := c.result.Decision
	out := with([]ep.Config{d.Default}, d.Config)
	for _, cfg := range []ep.Config{c.minimax, c.compromise} {
		if _, measured := c.seen[cfg.Key()]; measured && !cfg.IsDefault() {
			out = with(out, cfg)
		}
	}
	return out
}

// shareable are the configs that a row for all routings may state: those that every search
// of a group has measured.
func (g group) shareable() []ep.Config {
	return slices.DeleteFunc(g[0].statable(), func(cfg ep.Config) bool {
		return slices.ContainsFunc(g, func(c *searcher) bool {
			_, measured := c.seen[cfg.Key()]
			return !measured
		})
	})
}

// restate decides about a search again, by the sessions that had no part in the choice.
func (s *sweeper) restate(c *searcher) {
	if len(c.again) == 0 {
		return
	}
	c.stated = map[string]sighting{}
	all, was := search.Over(c.again), c.result.Decision
	if base := slices.IndexFunc(all, at(c.dflt)); base >= 0 {
		for _, f := range all {
			c.stated[c.space.Config(f.Point).Key()] = sighting{f, all[base], len(c.again)}
		}
	}
	win, ok := c.stated[was.Config.Key()]
	if !ok {
		m := stat.Match{Config: was.Config, Default: was.Default, Gain: was.Gain, Band: was.Band}
		c.result.Decision = stat.Fail(m, record.Failed, fmt.Sprintf("%s or the default failed in one of %d further sessions", was.Config.Key(), len(c.again)))
	} else {
		c.result.Decision = decideAgain(was, win)
		if c.result.Decision.KeepsDefault() {
			win.config = win.dflt
		}
		c.result.Times, c.result.DefaultTime = win.config.Times, win.dflt.Times
		c.result.Beside = besidePair(c.runner, win.config.Point, win.dflt.Point)
	}
	s.refile(c)
}

// decideAgain is the decision about the same challenger on the rounds of further sessions. A
// default that was kept stays.
func decideAgain(was record.Decision, x sighting) record.Decision {
	d := was
	if !was.KeepsDefault() {
		d = stat.Decide(stat.Match{Config: was.Config, Default: was.Default, Gain: x.config.Gain(x.dflt), Band: was.Band})
		d.Crossed, d.Reason = was.Crossed, was.Reason
		if d.KeepsDefault() {
			d.Reason = fmt.Sprintf("%s was faster in the session of the search, and is not for certain in %d further ones", was.Config.Key(), x.sessions)
		}
	}
	d.Rounds, d.Sessions = x.config.Rounds, x.sessions
	return d
}
