package sweep

import (
	"slices"
	"time"

	"github.com/epbench/epbench/tune/search"
)

const laterShare = 0.1

// allot returns the budget of the next search. It records the budget, so that a resumed sweep uses the same one.
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

// share returns how much of the time `left` the next search gets. A search that needs less
// than an equal part leaves the rest to larger searches.
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

func (s *sweeper) elapsed() time.Duration { return seconds(s.watch.wall(s.harness.wall).Total) }

func (s *sweeper) furtherTime(all ...*activeSearch) (t time.Duration) {
	for _, c := range all {
		t += seconds(s.plan.further(s.plan.Probed.costs[c.index]))
	}
	return t
}

func (s *sweeper) refinementFits(near group) bool {
	return s.opts.Time == 0 || s.elapsed()+s.furtherTime(near...) <= s.opts.Time
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
