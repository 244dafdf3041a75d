package drive

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// twoStreams performs a schedule on a rank with a side stream and returns its stamps. An alignment
// takes 1500 ns, a kernel boundary 100, a dispatch 4000, a combine 6000 (their halves a quarter and
// an eighth of it), a launch of the product 3000 and attention 5000. What runs together with
// something else takes slow times as long.
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

// overlaps reports whether a step's launch runs in the part that has calls.
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

func besideSchedule(op ep.Op, w way, fold, share int, feed bool) *schedule {
	return newSchedule(timing{op: op, mode: ep.Graph, clock: clockChain, fold: fold, feed: feed, beside: arrangement{way: w, share: share}})
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*math.Abs(want)+1e-12 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestAbreast: the call alone has the time of the chain, the product alone the time of its launches.
// Together they end with the later one. The progress lies between the marks.
func TestAbreast(t *testing.T) {
	const fold, share = 4, 3
	s := besideSchedule(ep.Dispatch, overlapped, fold, share, false)
	x, err := s.times(twoStreams(s, 1))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "call", x.call, 4.1e-6)
	marked := (share*3100 + 100.0*marks/fold) * 1e-9
	near(t, "product", x.product, marked+100e-9/fold) // the fork
	near(t, "product beside", x.productIn, x.product)
	near(t, "call beside", x.callIn, 4.1e-6+100e-9/fold) // the fork
	near(t, "both", x.both, x.productIn)
	if want := (fold*(4100+1600) + 200) / (fold * share * 3125.0); math.Abs(x.done-want) > 0.01 {
		t.Errorf("done: %v, want %v", x.done, want)
	}
}

// TestAbreastCallsLast: if the calls take longer than the product, both end with the calls.
func TestAbreastCallsLast(t *testing.T) {
	s := besideSchedule(ep.Combine, overlapped, 3, 1, false)
	x, err := s.times(twoStreams(s, 1))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "both", x.both, x.callIn)
	if x.both <= x.productIn || x.done != 1 {
		t.Errorf("%+v", x)
	}
}

// TestInPhases: a call in phases costs its two halves and nothing more.
func TestInPhases(t *testing.T) {
	for _, op := range ep.Exchanges() {
		s := besideSchedule(op, inPhases, 4, 2, false)
		x, err := s.times(twoStreams(s, 1))
		if err != nil {
			t.Fatal(err)
		}
		halves := map[ep.Op]float64{ep.Dispatch: 1500 + 200, ep.Combine: 2250 + 200, ep.Pair: 3750 + 400}[op] * 1e-9
		near(t, string(op)+" both", x.both, halves+2*3100e-9)
		if x.callIn < halves || x.callIn > halves+1e-6 || x.productIn < 2*3100e-9 || x.productIn > 2*3100e-9+1e-6 || x.done != 1 {
			t.Errorf("%s: %+v", op, x)
		}
	}
}

// TestFedCombine: if a combine uses up the data of its dispatch, an untimed dispatch comes before
// each call.
func TestFedCombine(t *testing.T) {
	for _, w := range []way{overlapped, inPhases} {
		s := besideSchedule(ep.Combine, w, 3, 4, true)
		want := 3 * 2 // alone and beside
		if w == inPhases {
			want += 3 // the call with stamps around its halves
		}
		if s.calls[ep.Dispatch] != want || s.calls[ep.Combine] != want {
			t.Errorf("%d: %v, want %d of each", w, s.calls, want)
		}
		x, err := s.times(twoStreams(s, 1))
		if err != nil {
			t.Fatal(err)
		}
		near(t, "call", x.call, 6.1e-6)
		if x.both > 20e-6 {
			t.Errorf("%+v counts dispatches", x)
		}
	}
}

// TestSteps: a layer of two micro-batches has two attentions and two passes over the experts, and
// each call runs beside a product. Calls of each micro-batch have numbers of their own.
func TestSteps(t *testing.T) {
	for _, w := range []way{stepOverlapped, stepPhases} {
		s := besideSchedule(ep.Pair, w, 2, 1, false)
		x, err := s.times(twoStreams(s, 1))
		if err != nil {
			t.Fatal(err)
		}
		if s.calls[ep.Dispatch] != s.secondCalls[ep.Dispatch] || s.calls[ep.Combine] != s.secondCalls[ep.Combine] {
			t.Errorf("%d: %v and %v calls of the micro-batches", w, s.calls, s.secondCalls)
		}
		near(t, "calls alone", x.call, (2*(4100+6100))*1e-9)
		if x.product < 16e-6 || x.product > 17e-6 {
			t.Errorf("products alone take %v", x.product)
		}
		want := x.product + 2*(1500+2250)*1e-9 // phases
		if w == stepOverlapped {
			want = (5000 + 4000 + 6000 + 6000) * 1e-9 // the longer one of each pair
		}
		if math.Abs(x.both-want) > 3e-6 {
			t.Errorf("%d: a layer takes %v, want about %v", w, x.both, want)
		}
	}
}

// TestStepsQueueCallsFirst: once both streams may go on, the call is queued before any product.
func TestStepsQueueCallsFirst(t *testing.T) {
	s := besideSchedule(ep.Pair, stepOverlapped, 1, 2, false)
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

// TestLoaded: a round of an experiment has the product alone, and the product beside one load for
// each call. Each load has memory of its own.
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
	x, err := s.times(twoStreams(s, 1.5))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "beside less alone", x.productIn-x.product, share*1500e-9)
}

// TestStampsAreRead: every slot is written once, and a missing stamp is an error.
func TestStampsAreRead(t *testing.T) {
	for _, w := range []way{onlyProduct, loaded, overlapped, inPhases} {
		s := besideSchedule(ep.Dispatch, w, 3, 2, false)
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
		{0.10, 128, 1, 1, 14, 1}, // as many as it takes, rounded up
		{0.50, 128, 1, 2, 32, 2}, // a pair has a launch for each half
		{0.83, 128, 1, 2, 56, 2}, // an odd number, in two launches and not in three
		{0.79, 128, 1, 2, 56, 2}, // the same for a call that took 5 % less
		{0.93, 60, 1, 1, 56, 1},
		{0.96, 60, 1, 1, 60, 1},   // never more than there are
		{1.50, 128, 1, 1, 128, 2}, // passes
		{0.50, 4, 1, 1, 4, 1},     // all of a few
		{2.30, 1, 1, 1, 1, 3},     // one product
		{0.30, 1, 4, 2, 1, 2},     // copies
	} {
		batch, launches := shareOf(c.share, c.groups, c.passes, c.least)
		if batch != c.batch || launches != c.launches {
			t.Errorf("%+v: batch %d, %d launches", c, batch, launches)
		}
	}
}

// TestHeldSMsAreBounded: a product for which calls would wait longer than a quarter of the deadline
// is refused. The refusal names the bound and the way out.
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

// TestFastestPlan: the plan for all SMs wins unless another is faster by the margin.
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
			t.Errorf("%v: plan %d, want %d", c.seconds, got, c.want)
		}
	}
}
