package drive

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// clockwork computes a schedule's readings. In ns, an alignment takes 1500, a kernel boundary 700, a dispatch 4000, a
// combine 6000 and a flush 70000.
func clockwork(s *schedule) []uint64 {
	now := uint64(1_000_000)
	cost := map[ep.Op]uint64{ep.Dispatch: 4000, ep.Combine: 6000, empty: 0}
	readings := make([]uint64, s.words())
	marks := make([]uint64, s.events)
	for i := range readings {
		if s.clock == clockSpan {
			readings[i] = uint64(i%2 - 1)
		}
	}
	for _, st := range s.steps {
		now += 700
		switch st.kind {
		case stepAlign:
			now += 1500
		case stepFlush:
			now += 70000
		case stepStamp:
			readings[st.n] = now
		case stepEvent:
			marks[st.n] = now
		case stepCall:
			if st.span >= 0 {
				readings[2*st.span] = min(readings[2*st.span], now)
				readings[2*st.span+1] = max(readings[2*st.span+1], now+cost[st.op])
			}
			now += cost[st.op]
		}
	}
	for i := range s.events / 2 {
		readings[i] = marks[2*i+1] - marks[2*i]
	}
	return readings
}

func TestCombineIsRefilled(t *testing.T) {
	for _, clock := range clocks {
		for _, mode := range ep.Modes() {
			for i, st := range newSchedule(timing{op: ep.Combine, mode: mode, clock: clock, fold: 3}).steps {
				if st.kind == stepStamp || st.kind == stepEvent || st.kind == stepCall && st.op == ep.Combine {
					t.Errorf("%s, %s: step %d is timed before any dispatch", clock, mode, i)
				}
				if st.kind == stepCall {
					break
				}
			}
		}
	}
}

// TestClocks: a clock gives the same seconds in every mode. The chain clock includes one kernel boundary, the event
// clock includes two.
func TestClocks(t *testing.T) {
	kernel := map[ep.Op]float64{ep.Dispatch: 4000, ep.Combine: 6000, ep.Pair: 4000 + 700 + 6000, empty: 0}
	boundaries := map[string]float64{clockChain: 700, clockSpan: 0, clockEvent: 1400}
	for _, clock := range clocks {
		for _, mode := range ep.Modes() {
			for op, want := range kernel {
				for _, fold := range []int{1, 2, 17} {
					s := newSchedule(timing{op: op, mode: mode, clock: clock, fold: fold})
					got, err := s.seconds(clockwork(s))
					want := want + boundaries[clock]
					name := fmt.Sprintf("%s %s %s fold %d", clock, mode, op, fold)
					if err != nil || math.Abs(got*1e9-want) > 1e-3 {
						t.Errorf("%s: %g ns, want %g (%v)", name, got*1e9, want, err)
					}
					checkCalls(t, name, s)
				}
			}
		}
	}
}

// checkCalls: an op's calls are numbered without gaps. No round begins with a call.
func checkCalls(t *testing.T, name string, s *schedule) {
	t.Helper()
	seen := map[ep.Op]int{}
	for _, st := range s.steps {
		if st.kind != stepCall {
			continue
		}
		if st.n != seen[st.op] {
			t.Errorf("%s: call %d of %s comes as number %d", name, seen[st.op], st.op, st.n)
		}
		seen[st.op]++
	}
	for op, n := range s.calls {
		if seen[op] != n {
			t.Errorf("%s: %d steps call %s, but the schedule counts %d", name, seen[op], op, n)
		}
	}
	if first := s.steps[0].kind; first != stepAlign && first != stepClear && first != stepFlush {
		t.Errorf("%s: the first step has kind %d, want an alignment, or a step that clears spans or the cache", name, first)
	}
}

// TestDisturbedRound: if the alignments take longer than the chain, the time is LeastReading.
func TestDisturbedRound(t *testing.T) {
	s := newSchedule(timing{op: ep.Dispatch, mode: ep.Graph, clock: clockChain, fold: 4})
	if got, err := s.seconds([]uint64{10, 500, 1200}); err != nil || got != kernels.LeastReading {
		t.Errorf("%g s, %v", got, err)
	}
}

func TestBadReadings(t *testing.T) {
	chain := newSchedule(timing{op: ep.Dispatch, mode: ep.Graph, clock: clockChain, fold: 2})
	span := newSchedule(timing{op: ep.Dispatch, mode: ep.Graph, clock: clockSpan, fold: 1})
	for _, c := range []struct {
		s *schedule
		r []uint64
	}{
		{chain, []uint64{0, 0, 0}},
		{chain, []uint64{30, 20, 40}},
		{chain, []uint64{10, 50, 40}},
		{chain, nil},
		{span, []uint64{math.MaxUint64, 0}},
	} {
		if s, err := c.s.seconds(c.r); err == nil {
			t.Errorf("clock %s: the readings %d were accepted and gave %g s", c.s.clock, c.r, s)
		}
	}
}

func TestParseClock(t *testing.T) {
	for word, want := range map[string]int{"chain": 0, "event": 0, "span": 0, "span:ready": 1, "span:arrived": 3} {
		clock, stage, err := parseClock(word)
		if err != nil || stage != want || clock != strings.Split(word, ":")[0] {
			t.Errorf("%s: %s, stage %d, %v", word, clock, stage, err)
		}
	}
	for _, word := range []string{"wall", "span:", "span:end", "chain:sent", "event:"} {
		if _, _, err := parseClock(word); err == nil || !strings.Contains(err.Error(), "clock: ") {
			t.Errorf("%s: %v", word, err)
		}
	}
}
