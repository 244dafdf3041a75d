package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// inProcesses measures what the rows will state once more in further processes of the worker,
// where the options ask for that. Two processes with one config differ by several per cent in
// some libraries, because each lays its memory out anew. Processes that had no part in the
// choice say what a caller will see. All searches share a process: starting one takes
// seconds. That time is not part of a time budget, which bounds the search.
func (s *sweeper) inProcesses(ctx context.Context) error {
	for range s.opts.Processes {
		renew := s.renewOnce()
		for _, c := range s.searches {
			if err := s.measureAgain(ctx, c, renew); err != nil {
				return err
			}
		}
	}
	if s.opts.Processes == 0 || ctx.Err() != nil {
		return nil
	}
	for _, c := range s.searches {
		s.restate(c)
	}
	for _, g := range s.groups() {
		if g = g.usable(); len(g) > 1 && g.crossed() {
			s.agree(g, g.statedConfigs(), g[0].minimax)
		}
	}
	return nil
}

// renewOnce replaces the worker's process when it is called for the first time: a resumed
// sweep that has all rounds of a process in its log needs none.
func (s *sweeper) renewOnce() func(context.Context) error {
	done := false
	return func(ctx context.Context) error {
		if done {
			return nil
		}
		err := s.lab.backend.(kernels.Renewable).Renew(ctx) // MakePlan refuses other backends
		done = err == nil
		return err
	}
}

// measureAgain measures the default and what a row may state of a search, in one session of
// the present process. Once ctx is cancelled nothing is measured.
func (s *sweeper) measureAgain(ctx context.Context, c *searcher, renew func(context.Context) error) error {
	if !c.result.Decision.Usable() || ctx.Err() != nil {
		return nil
	}
	var live []int
	for _, cfg := range c.statable() {
		live = append(live, c.space.Add(cfg))
	}
	c.runner.Renew = renew
	finals, err := c.state.Apart(ctx, record.StageProcess, live, s.lab.policy.ConfirmRounds)
	c.runner.Renew = nil
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

// statable are the configs of a search that a row may state: its own choice, and what its
// group agreed on.
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

// statedConfigs are the configs that every search of a group has stated, those of the first
// one in order.
func (g group) statedConfigs() []ep.Config {
	var out []ep.Config
	for _, cfg := range g[0].statable() {
		everywhere := true
		for _, c := range g {
			_, ok := c.seen[cfg.Key()]
			everywhere = everywhere && ok
		}
		if everywhere {
			out = append(out, cfg)
		}
	}
	return out
}

// restate decides about a search again, by the processes that had no part in the choice.
func (s *sweeper) restate(c *searcher) {
	was := c.result.Decision
	if len(c.again) == 0 {
		return
	}
	c.stated = map[string]sighting{}
	all := search.Over(c.again)
	base := finalistAt(all, c.dflt)
	if base == nil {
		s.withdraw(c, fmt.Sprintf("the default failed in one of %d further processes", len(c.again)))
		return
	}
	for _, f := range all {
		c.stated[c.space.Config(f.Point).Key()] = sighting{f, *base, len(c.again)}
	}
	win, ok := c.stated[was.Config.Key()]
	if !ok {
		s.withdraw(c, fmt.Sprintf("%s failed in one of %d further processes", was.Config.Key(), len(c.again)))
		return
	}
	c.result.Times, c.result.DefaultTime = win.config.Times, base.Times
	c.result.Decision.Processes, c.result.Decision.Rounds = len(c.again), win.config.Rounds
	if !was.KeepsDefault() {
		c.result.Decision = decideAgain(was, win, len(c.again))
	}
	if c.result.Decision.KeepsDefault() {
		c.result.Times = base.Times
	}
	s.refile(c)
}

// decideAgain is the decision about the same challenger on the rounds of further processes.
func decideAgain(was record.Decision, x sighting, processes int) record.Decision {
	d := stat.Decide(stat.Match{
		Config: was.Config, Default: was.Default, Gain: x.config.Gain(x.dflt), Rounds: x.config.Rounds, Band: was.Band,
	})
	d.Processes, d.Crossed, d.Reason = processes, was.Crossed, was.Reason
	if d.KeepsDefault() {
		d.Reason = fmt.Sprintf("%s was faster in the process of the search, and is not for certain in %d further ones", was.Config.Key(), processes)
	}
	return d
}

// withdraw takes back a decision that further processes contradict by a failure.
func (s *sweeper) withdraw(c *searcher, reason string) {
	d := c.result.Decision
	c.result.Decision = stat.Fail(stat.Match{Config: d.Config, Default: d.Default, Gain: d.Gain, Band: d.Band}, record.Failed, reason)
	s.refile(c)
}

func finalistAt(all []search.Finalist, point int) *search.Finalist {
	for i := range all {
		if all[i].Point == point {
			return &all[i]
		}
	}
	return nil
}
