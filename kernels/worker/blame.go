package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// settle limits how long epbench reads messages after a rank disconnected. Another rank may still report why.
const settle = 250 * time.Millisecond

// Trouble reports that a rank failed. The rank sends it to epbench.
type Trouble struct {
	ID      int64     `json:"id,omitempty"` // failed request, 0 if unknown
	Status  ep.Status `json:"status"`
	Reason  string    `json:"reason"`
	Follows bool      `json:"follows,omitempty"` // the rank ends only because another rank failed or is gone
	At      float64   `json:"at,omitempty"`      // when the rank failed, in seconds of its host's clock; 0 if unknown
}

// end is a rank's failure or disconnection.
type end struct {
	*member
	Trouble
	gone bool // disconnection
}

func newEnd(m *member, t Trouble) end {
	if !slices.Contains(ep.Statuses(), t.Status) || t.Status == ep.OK {
		t.Status = ep.Crash
	}
	return end{member: m, Trouble: t}
}

func newLoss(m *member) end {
	return end{member: m, Trouble: Trouble{Status: ep.Crash, Reason: "is gone"}, gone: true}
}

func (e end) own() bool { return !e.gone && !e.Follows }

// before reports whether e happened before another end. Only clocks of one host can be compared.
func (e end) before(other end) bool {
	return e.Host == other.Host && e.At > 0 && e.At < other.At
}

// same reports whether both ends belong to one rank and are of one kind.
func (e end) same(other end) bool {
	return e.Rank == other.Rank && e.gone == other.gone && e.Follows == other.Follows
}

// blamed returns the end that caused the others, or nil. It does not rely on their order, because epbench reads each
// rank's connection in another goroutine. It prefers a rank that reported a failure of its own. Next comes a rank that
// is gone without a report, and last a rank that ended because of another one. If one rank reported a failure and
// another is gone without a report, blamed names both: a rank may fail because another one was killed, and a rank may
// end without a report after another one failed.
func blamed(ends []end) *Trouble {
	var failed, silent, follower *end
	for i := range ends {
		e := &ends[i]
		switch {
		case e.own() && (failed == nil || e.before(*failed)):
			failed = e
		case e.gone && silent == nil && !hasReported(ends, e.Rank):
			silent = e
		case e.Follows && follower == nil:
			follower = e
		}
	}
	switch {
	case failed != nil && silent != nil:
		t := failed.named()
		t.Reason += "; " + silent.named().Reason
		return t
	case failed != nil:
		return failed.named()
	case silent != nil:
		return silent.named()
	case follower != nil:
		return follower.named()
	}
	return nil
}

func hasReported(ends []end, rank int) bool {
	return slices.ContainsFunc(ends, func(e end) bool { return e.Rank == rank && !e.gone })
}

// named returns the trouble with the rank's name before its reason.
func (e *end) named() *Trouble {
	t := e.Trouble
	t.Reason = fmt.Sprintf("%s: %s", e.member, t.Reason)
	return &t
}

// fail stores a rank's failure. The first failure starts a timer that ends the group after the time `after`, unless
// rank 0 answers the request in that time.
func (g *group) fail(m *member, t Trouble, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := t.ID != 0 && t.ID <= g.served
	if g.ending || late {
		return
	}
	if len(g.ends) == 0 {
		g.timer = time.AfterFunc(after, g.end)
	}
	g.note(newEnd(m, t))
}

func (g *group) rankGone(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending {
		return
	}
	g.note(newLoss(m))
	g.stopTimer()
	time.AfterFunc(g.patience(), g.endUnlessOver)
}

// rankZeroGone stores that rank 0 is gone. It waits until all other ranks are gone too, because one of them may be the
// cause, or until a time limit.
func (g *group) rankZeroGone() {
	g.mu.Lock()
	if g.ending || g.members[0] == nil {
		g.mu.Unlock()
		return
	}
	g.note(newLoss(g.members[0]))
	g.stopTimer()
	limit := g.patience()
	g.mu.Unlock()
	// A busy host may pause this program for longer than the limit. After the pause, a single long wait would be over at
	// once, before the goroutines that read from the ranks can run. They run between short waits.
	const waits = 10
	for range waits {
		select {
		case <-g.left:
			return
		case <-g.closed:
			return
		case <-time.After(limit / waits):
		}
	}
}

// patience returns how long to wait for the cause of a disconnection. The wait is longer if all ranks that ended so far
// say that another rank was the cause. The caller holds mu.
func (g *group) patience() time.Duration {
	if t := blamed(g.ends); t != nil && t.Follows {
		return leaveLimit
	}
	return settle
}

// note stores a rank's end, unless one of its kind is known. The caller holds mu.
func (g *group) note(e end) {
	if slices.ContainsFunc(g.ends, e.same) {
		return
	}
	g.ends = append(g.ends, e)
	gone := 0
	for _, e := range g.ends {
		if e.gone {
			gone++
		}
	}
	if gone == len(g.members) {
		g.allLeft()
	}
}

func (g *group) endUnlessOver() {
	g.mu.Lock()
	over := g.ending
	g.mu.Unlock()
	if !over {
		g.end()
	}
}

func (g *group) clearTrouble(request int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.served = request
	if g.stopTimer() {
		g.ends = nil
	}
}

func (g *group) firstTrouble() *Trouble {
	g.mu.Lock()
	defer g.mu.Unlock()
	return blamed(g.ends)
}
