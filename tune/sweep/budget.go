package sweep

import (
	"slices"
	"time"

	"github.com/epbench/epbench/tune/search"
)

// laterShare is the share of the time left for searches that is kept for the steps after them, besides
// further sessions: crossing routings, refining intervals, and the files.
const laterShare = 0.1

// allot returns the budget of the next search, and records its time: a resumed sweep decides by it
// again. Sweep.Time is the time of the whole command, from its start to the last file.
func (s *sweeper) allot() (search.Budget, error) {
	b := search.Budget{Evaluations: s.opts.Evaluations}
	if s.opts.Time == 0 {
		return b, nil
	}
	if s.done < len(s.run.Allotted) {
		b.Time = seconds(s.run.Allotted[s.done])
		return b, nil
	}
	left := s.opts.Time - s.elapsed() - s.furtherTime(s.searches...)
	b.Time = max(s.share(time.Duration((1-laterShare)*float64(left))), time.Millisecond)
	s.run.Allotted = append(s.run.Allotted, b.Time.Seconds())
	return b, s.writeRun()
}

// share returns the part of the time left for searches that the next search may take: an equal one,
// and what searches of small spaces leave over if its own space is large.
func (s *sweeper) share(left time.Duration) time.Duration {
	var needs []time.Duration
	for _, c := range s.searches[s.done:] {
		needs = append(needs, seconds(s.plan.whole(c.index)))
	}
	own, equal := needs[0], left/time.Duration(len(needs))
	slices.Sort(needs)
	for len(needs) > 1 && needs[0] < left/time.Duration(len(needs)) {
		left, needs = left-needs[0], needs[1:]
	}
	if level := left / time.Duration(len(needs)); own >= level {
		return level
	}
	return equal
}

// elapsed returns the wall time of the sweep so far, earlier commands included.
func (s *sweeper) elapsed() time.Duration { return seconds(s.watch.wall(s.harness.wall).Total) }

// furtherTime returns the time that the further sessions of searches take, by the probe.
func (s *sweeper) furtherTime(all ...*activeSearch) (t time.Duration) {
	for _, c := range all {
		t += seconds(s.plan.further(s.plan.Probed.costs[c.index]))
	}
	return t
}

// refinementFits reports whether time is left to measure a refinement under the routings of these
// searches, with its further sessions.
func (s *sweeper) refinementFits(near group) bool {
	return s.opts.Time == 0 || s.elapsed()+s.furtherTime(near...) <= s.opts.Time
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
