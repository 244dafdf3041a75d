package drive

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// twoStreams computes the stamps of a schedule on a rank with a side stream. An alignment takes
// 1500 ns, a kernel boundary 100, a dispatch 4000 and a combine 6000. A sending half takes a quarter
// of its call, a receiving half an eighth. A launch of the product takes 3000 and attention 5000. If
// calls run at the same time, these two times are multiplied by slow.
func twoStreams(s *schedule, slow float64) []uint64 {
	readings := make([]uint64, s.slots)
	calls, side := 1_000_000.0, 1_000_000.0
	forked := false
	cost := map[ep.Op]float64{ep.Dispatch: 4000, ep.Combine: 6000}
	for _, st := range s.steps {
		now := &calls
		if st.side {
			now = &side
		}
		*now += 100
		switch st.kind {
		case stepAlign:
			*now += 1500
		case stepStamp:
			readings[st.n] = uint64(*now)
		case stepFork:
			side, forked = max(side, calls), true
		case stepJoin:
			calls, forked = max(side, calls), false
		case stepProduct, stepAttention:
			d := 3000.0
			if st.kind == stepAttention {
				d = 5000
			}
			if st.side && forked && s.overlaps(st) {
				d *= slow
			}
			*now += d
		case stepCall:
			d := cost[st.op]
			switch st.half {
			case sending:
				d /= 4
			case receiving:
				d /= 8
			}
			*now += d
		}
	}
	return readings
}

// overlaps reports whether a step on the side stream runs in a part of the schedule that has calls.
func (s *schedule) overlaps(st step) bool {
	seen := 0
	for _, x := range s.steps {
		if x.kind == stepFork {
			seen++
		}
		if x == st {
			break
		}
	}
	return seen > 1
}

// besideSchedule returns a schedule of an op with a product beside its calls.
func besideSchedule(op ep.Op, w way, fold, share int) *schedule {
	return newSchedule(timing{op: op, mode: ep.Graph, clock: clockChain, fold: fold, beside: arrangement{way: w, share: share}})
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*math.Abs(want)+1e-12 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestAbreast: the time of the call alone is the time that the chain clock gives, and the time of the
// product alone is the time of its launches. The field both is the longer of the two times. The field done,
// the part of the product that is complete when the calls end, is interpolated between marks.
func TestAbreast(t *testing.T) {
	const fold, share = 4, 3
	s := besideSchedule(ep.Dispatch, overlapped, fold, share)
	x := timesOf(t, s, twoStreams(s, 1))
	near(t, "call", x.call, 4.1e-6) // 4000 and a kernel boundary
	// A call has share launches of 3000 and a boundary each. The stamps of the marks are shared by all calls.
	marked := (share*3100 + 100.0*marks/fold) * 1e-9
	near(t, "product", x.product, marked+100e-9/fold) // a boundary for the fork, once for all calls
	near(t, "product beside", x.productIn, x.product)
	near(t, "call beside", x.callIn, 4.1e-6+100e-9/fold)
	near(t, "both", x.both, x.productIn)
	// Each call takes 4100, and its alignment 1600. A launch takes about 3125, with its part of the stamps.
	if want := (fold*(4100+1600) + 200) / (fold * share * 3125.0); math.Abs(x.done-want) > 0.01 {
		t.Errorf("done: %v, want %v", x.done, want)
	}
}

// TestAbreastCallsLast: if the calls take longer than the product, the field both is the time of the calls.
func TestAbreastCallsLast(t *testing.T) {
	s := besideSchedule(ep.Combine, overlapped, 3, 1)
	x := timesOf(t, s, twoStreams(s, 1))
	near(t, "both", x.both, x.callIn)
	if x.both <= x.productIn || x.done != 1 {
		t.Errorf("%+v", x)
	}
}

// TestInPhases: a call in phases adds the times of its two halves to the time of the product.
func TestInPhases(t *testing.T) {
	for _, op := range ep.Exchanges() {
		s := besideSchedule(op, inPhases, 4, 2)
		x := timesOf(t, s, twoStreams(s, 1))
		// The halves of a dispatch take 4000/4 + 4000/8 = 1500, of a combine 6000/4 + 6000/8 = 2250. Each half
		// adds a boundary of 100.
		halves := map[ep.Op]float64{ep.Dispatch: 1500 + 200, ep.Combine: 2250 + 200, ep.Pair: 3750 + 400}[op] * 1e-9
		near(t, string(op)+" both", x.both, halves+2*3100e-9)
		if x.callIn < halves || x.callIn > halves+1e-6 || x.productIn < 2*3100e-9 || x.productIn > 2*3100e-9+1e-6 || x.done != 1 {
			t.Errorf("%s: %+v", op, x)
		}
	}
}

// TestSteps: a layer of two micro-batches has two attentions and two passes over the experts, and
// each call runs at the same time as one of them. The calls of each micro-batch are counted
// separately.
func TestSteps(t *testing.T) {
	for _, w := range []way{stepOverlapped, stepPhases} {
		s := besideSchedule(ep.Pair, w, 2, 1)
		x := timesOf(t, s, twoStreams(s, 1))
		if s.calls[ep.Dispatch] != s.secondCalls[ep.Dispatch] || s.calls[ep.Combine] != s.secondCalls[ep.Combine] {
			t.Errorf("way %d: one micro-batch has %v calls, the other %v", w, s.calls, s.secondCalls)
		}
		near(t, "calls alone", x.call, (2*(4100+6100))*1e-9)
		if x.product < 16e-6 || x.product > 17e-6 {
			t.Errorf("products alone take %v", x.product)
		}
		// In phases: the product, and the halves of 2 dispatches (4000/4 + 4000/8 each) and of 2 combines
		// (6000/4 + 6000/8 each).
		want := x.product + 2*(1500+2250)*1e-9
		if w == stepOverlapped { // each call or its product, whichever takes longer: see stepCalls
			want = (5000 + 4000 + 6000 + 6000) * 1e-9
		}
		if math.Abs(x.both-want) > 3e-6 {
			t.Errorf("way %d: a layer takes %v, want about %v", w, x.both, want)
		}
	}
}

// TestStepsQueueCallsFirst: after each fork, the call is queued before any product.
func TestStepsQueueCallsFirst(t *testing.T) {
	s := besideSchedule(ep.Pair, stepOverlapped, 1, 2)
	from := slices.IndexFunc(s.steps, func(st step) bool { return st.kind == stepStamp && st.n == s.now.begin })
	side := false
	for _, st := range s.steps[from:] {
		switch st.kind {
		case stepFork:
			side = false
		case stepProduct, stepAttention:
			side = true
		case stepCall:
			if side {
				t.Fatalf("call %d of %s is queued behind a product", st.n, st.op)
			}
		}
	}
}

// TestLoaded: a round of an experiment first runs the product alone, then the product at the same time
// as loads: as many loads as a round has calls. The loads are numbered, because each has its own
// memory.
func TestLoaded(t *testing.T) {
	const fold, share = 4, 3
	s := newSchedule(timing{op: empty, mode: ep.Graph, clock: clockChain, fold: fold, beside: arrangement{way: loaded, share: share, left: 100, load: true}})
	var loads []int
	for _, st := range s.steps {
		if st.kind == stepLoad {
			loads = append(loads, st.n)
		}
	}
	if !slices.Equal(loads, []int{0, 1, 2, 3}) {
		t.Errorf("loads %v", loads)
	}
	x := timesOf(t, s, twoStreams(s, 1.5))
	near(t, "beside less alone", x.productIn-x.product, share*1500e-9)
}

// TestStampsAreRead: every slot is written once, and a missing stamp is an error.
func TestStampsAreRead(t *testing.T) {
	for _, w := range []way{onlyProduct, loaded, overlapped, inPhases} {
		s := besideSchedule(ep.Dispatch, w, 3, 2)
		written := make([]int, s.slots)
		for _, st := range s.steps {
			if st.kind == stepStamp {
				written[st.n]++
			}
		}
		for slot, n := range written {
			if n != 1 {
				t.Errorf("%d: slot %d is written %d times", w, slot, n)
			}
		}
		r := twoStreams(s, 1)
		r[s.slots-1] = 0
		if _, err := s.times(r); err == nil || !strings.Contains(err.Error(), "is missing") {
			t.Errorf("%d: %v", w, err)
		}
	}
}

func TestShareOf(t *testing.T) {
	for _, c := range []struct {
		share                 float64
		groups, passes, least int
		batch, launches       int
	}{
		{0.04, 128, 1, 1, 8, 1},  // a few experts of many
		{0.10, 128, 1, 1, 14, 1}, // rounded up
		{0.50, 128, 1, 2, 32, 2}, // a pair has a launch for each half
		{0.83, 128, 1, 2, 56, 2}, // 0.83 x 128 = 106.2, so 107 experts in two launches: 54 in each, rounded up to 56
		{0.79, 128, 1, 2, 56, 2}, // the same for a call that took 5 % less
		{0.93, 60, 1, 1, 56, 1},
		{0.96, 60, 1, 1, 60, 1},   // never more than all experts
		{1.50, 128, 1, 1, 128, 2}, // more than one pass over the experts
		{0.50, 4, 1, 1, 4, 1},     // all experts if there are few
		{2.30, 1, 1, 1, 1, 3},     // one expert, multiplied again
		{0.30, 1, 4, 2, 1, 2},     // a copy whose pass has 4 launches: 0.3 x 4 = 1.2 launches, rounded up
	} {
		batch, launches := shareOf(c.share, c.groups, c.passes, c.least)
		if batch != c.batch || launches != c.launches {
			t.Errorf("%+v: batch %d, %d launches", c, batch, launches)
		}
	}
}

// TestHeldSMsAreBounded: a product is refused if calls would wait for its SMs longer than a quarter of
// the deadline. The error names the bound and says to use smaller sizes.
func TestHeldSMsAreBounded(t *testing.T) {
	of := ep.Product{Kind: ep.Gemm, M: 1, N: 16, K: 16, DType: ep.BF16, Groups: 1}
	if err := checkHeld(of, 0.25, time.Second); err != nil {
		t.Error(err)
	}
	err := checkHeld(of, 0.26, time.Second)
	if err == nil || !strings.Contains(err.Error(), "wait at most 250ms") || !strings.Contains(err.Error(), "smaller sizes") {
		t.Error(err)
	}
}

// TestFastestPlan: the plan for all SMs (plan 0) is chosen unless another plan is faster by more than
// a margin.
func TestFastestPlan(t *testing.T) {
	for _, c := range []struct {
		seconds []float64
		want    int
	}{
		{[]float64{1}, 0},
		{[]float64{1, 1.3, 2}, 0},
		{[]float64{1, 0.995}, 0},
		{[]float64{62, 60, 53, 54}, 2},
		{[]float64{1, 0.98, 0.979}, 2},
	} {
		if got := fastestPlan(c.seconds); got != c.want {
			t.Errorf("times %v: plan %d is chosen, want %d", c.seconds, got, c.want)
		}
	}
}

// timesOf returns the times in a schedule's stamps.
func timesOf(t *testing.T, s *schedule, r []uint64) roundTimes {
	t.Helper()
	x, err := s.times(r)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
