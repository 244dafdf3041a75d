package drive

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// twoStreams computes a schedule's stamps. In ns, an alignment takes 1500, a kernel boundary 100, a dispatch 4000, a
// combine 6000, a product's launch 3000 and attention 5000. A sending half takes a quarter of its call, a receiving
// half an eighth. Beside calls, products take `slow` times as long.
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

func besideSchedule(op ep.Op, w way, fold, share int) *schedule {
	return newSchedule(timing{op: op, mode: ep.Graph, clock: clockChain, fold: fold, beside: arrangement{way: w, share: share}})
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*math.Abs(want)+1e-12 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestAbreast: `both` is the longer time of call and product, and `done` is interpolated.
func TestAbreast(t *testing.T) {
	const fold, share = 4, 3
	s := besideSchedule(ep.Dispatch, overlapped, fold, share)
	x := timesOf(t, s, twoStreams(s, 1))
	near(t, "call", x.call, 4.1e-6) // 4000 and a boundary
	// `share` launches of 3000, each with a boundary, and the call's part of the marks.
	marked := (share*3100 + 100.0*marks/fold) * 1e-9
	near(t, "product", x.product, marked+100e-9/fold) // one boundary for the fork
	near(t, "product beside", x.productIn, x.product)
	near(t, "call beside", x.callIn, 4.1e-6+100e-9/fold)
	near(t, "both", x.both, x.productIn)
	// Each call takes 4100, its alignment 1600, a launch about 3125.
	if want := (fold*(4100+1600) + 200) / (fold * share * 3125.0); math.Abs(x.done-want) > 0.01 {
		t.Errorf("done: %v, want %v", x.done, want)
	}
}

// TestAbreastCallsLast: if the calls take longer than the product, `both` is their time.
func TestAbreastCallsLast(t *testing.T) {
	s := besideSchedule(ep.Combine, overlapped, 3, 1)
	x := timesOf(t, s, twoStreams(s, 1))
	near(t, "both", x.both, x.callIn)
	if x.both <= x.productIn || x.done != 1 {
		t.Errorf("%+v", x)
	}
}

// TestInPhases: a call adds its halves to the product's time.
func TestInPhases(t *testing.T) {
	for _, op := range ep.Exchanges() {
		s := besideSchedule(op, inPhases, 4, 2)
		x := timesOf(t, s, twoStreams(s, 1))
		// Halves of a dispatch: 4000/4 + 4000/8 = 1500; of a combine: 6000/4 + 6000/8 = 2250. Each half has a boundary
		// of 100.
		halves := map[ep.Op]float64{ep.Dispatch: 1500 + 200, ep.Combine: 2250 + 200, ep.Pair: 3750 + 400}[op] * 1e-9
		near(t, string(op)+" both", x.both, halves+2*3100e-9)
		if x.callIn < halves || x.callIn > halves+1e-6 || x.productIn < 2*3100e-9 || x.productIn > 2*3100e-9+1e-6 || x.done != 1 {
			t.Errorf("%s: %+v", op, x)
		}
	}
}

// TestSteps: a layer has two attentions and two passes, each beside a call. Each micro-batch numbers its own calls.
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
		// The product, and halves of 2 dispatches and 2 combines.
		want := x.product + 2*(1500+2250)*1e-9
		if w == stepOverlapped { // the longer of call and product
			want = (5000 + 4000 + 6000 + 6000) * 1e-9
		}
		if math.Abs(x.both-want) > 3e-6 {
			t.Errorf("way %d: a layer takes %v, want about %v", w, x.both, want)
		}
	}
}

// TestStepsQueueCallsFirst: after a fork, the call comes before a product.
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

// TestLoaded: the product runs alone, then beside as many loads as calls.
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
		share                  float64
		groups, perPass, least int
		batch, launches        int
	}{
		{0.04, 128, 1, 1, 8, 1},
		{0.10, 128, 1, 1, 14, 1},
		{0.50, 128, 1, 2, 32, 2}, // a launch for each half of a pair
		{0.83, 128, 1, 2, 56, 2}, // 106.2 experts: two launches of 54, rounded up to 56
		{0.79, 128, 1, 2, 56, 2}, // 5 % less, the same launches
		{0.93, 60, 1, 1, 56, 1},
		{0.96, 60, 1, 1, 60, 1},
		{1.50, 128, 1, 1, 128, 2},
		{0.50, 4, 1, 1, 4, 1},
		{2.30, 1, 1, 1, 1, 3},
		{0.30, 1, 4, 2, 1, 2}, // a copy: 0.3 x 4 launches, rounded up
	} {
		batch, launches := shareOf(c.share, c.groups, c.perPass, c.least)
		if batch != c.batch || launches != c.launches {
			t.Errorf("%+v: batch %d, %d launches", c, batch, launches)
		}
	}
}

// TestHeldSMsAreBounded: calls may wait for a product's SMs for a quarter of the deadline.
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

// TestFastestPlan: the plan for all SMs wins unless another plan is faster by a margin.
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

func timesOf(t *testing.T, s *schedule, r []uint64) roundTimes {
	t.Helper()
	x, err := s.times(r)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
