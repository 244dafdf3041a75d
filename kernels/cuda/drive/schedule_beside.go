package drive

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// way is a manner in which calls and a matrix product ("the product") run together.
type way int

const (
	noProduct      way = iota
	onlyProduct        // the product runs alone
	loaded             // the product runs alone, then with a load or planned for fewer SMs: see schedule.loaded
	overlapped         // calls run on one stream and the product on another, at the same time
	inPhases           // a call sends, then the product runs, then the call receives, all on one stream
	stepOverlapped     // a decode step of two micro-batches: calls of one overlap products of the other
	stepPhases         // a decode step of two micro-batches, in phases on one stream
)

// arrangement describes how calls and a product run together, and how much of the product runs beside
// each call.
type arrangement struct {
	way   way
	share int  // number of launches of the product for each call
	left  int  // number of SMs that the product is planned for while calls run, 0 for its own plan
	load  bool // with way loaded: whether a load runs beside the product
}

// marks is the number of time stamps of the product's progress.
const marks = 4

// section holds the indices of the time stamps in one section of a round with a product. A section
// has all calls of the round, or one call if each call needs a dispatch before it.
type section struct {
	calls   int           // number of calls
	chain   int           // first of three stamps: start and end of the calls alone, then end of as many alignments
	alone   productStamps // stamps of the product alone
	within  productStamps // stamps of the product while calls run
	begin   int           // start of calls and product together
	end     int           // end of the last call; in phases, end of calls and product
	aligned int           // in phases: end of the alignments after `end`, as many as the calls had
	halves  []int         // in phases: four stamps of each call: before its send, after send, after the product, after receive
}

// productStamps holds the indices of the stamps of a product: its start, and the first of the marks.
type productStamps struct {
	start, first int
	share        []float64 // fraction of the product that is done at each mark
}

// withProduct adds the steps of a round with a product. The round times the calls alone as a chain, the
// product alone, and calls and product at the same time.
func (s *schedule) withProduct() {
	switch s.beside.way {
	case onlyProduct:
		s.now = &section{calls: s.fold}
		s.yielding = s.beside.left
		s.productAlone()
		s.yielding = 0
		s.sections = append(s.sections, s.now)
		return
	case loaded:
		s.loaded()
		return
	}
	s.refill()
	s.section(s.fold)
}

// section adds the three parts for `calls` calls: the calls alone, the product alone, and calls with product.
func (s *schedule) section(calls int) {
	s.now = &section{calls: calls}
	s.sections = append(s.sections, s.now)
	s.aloneChain()
	s.productAlone()
	switch s.beside.way {
	case overlapped:
		s.overlappedCalls()
	case stepOverlapped:
		s.overlappedSteps()
	case inPhases, stepPhases:
		s.phasedCalls()
	}
}

// isStep reports whether the round is made of decode steps.
func (s *schedule) isStep() bool { return s.beside.way == stepOverlapped || s.beside.way == stepPhases }

// aloneChain times the calls alone, then the same number of alignments alone.
func (s *schedule) aloneChain() {
	s.align()
	s.now.chain = s.slots
	s.stamp()
	s.chainOfCalls()
	s.stamp()
	for range s.sectionAligns() {
		s.align()
	}
	s.stamp()
}

// chainOfCalls adds the calls of a section one after the other. A step has calls for both
// micro-batches.
func (s *schedule) chainOfCalls() {
	for i := range s.now.calls {
		if s.isStep() {
			for _, c := range stepCalls {
				s.addCall(c, whole)
			}
		} else {
			s.unit()
		}
		if s.op != ep.Pair || i == s.now.calls-1 {
			s.align()
		}
	}
}

// sectionAligns returns how many alignments chainOfCalls adds.
func (s *schedule) sectionAligns() int {
	if s.op == ep.Pair {
		return 1
	}
	return s.now.calls
}

// launches returns the number of launches of the product in a section.
func (s *schedule) launches() int { return s.now.calls * s.beside.share }

// products adds n launches on the side stream. They start after the steps that the calls' stream has
// so far.
func (s *schedule) products(n int) {
	s.add(stepFork, 0)
	for i := range n {
		s.steps = append(s.steps, step{kind: stepProduct, n: i, span: -1, side: true})
	}
}

// marked adds the section's launches on the side stream, with stamps of their progress.
func (s *schedule) marked(start int) productStamps {
	out, n := productStamps{start: start, first: s.slots}, s.launches()
	s.add(stepFork, 0)
	for i := range n {
		s.steps = append(s.steps, step{kind: stepProduct, n: i, span: -1, side: true, left: s.yielding})
		if (i+1)*marks/n > i*marks/n {
			s.sideStamp()
			out.share = append(out.share, float64(i+1)/float64(n))
		}
	}
	return out
}

func (s *schedule) sideStamp() {
	s.steps = append(s.steps, step{kind: stepStamp, n: s.slots, span: -1, side: true})
	s.slots++
}

// began adds a time stamp and returns its slot.
func (s *schedule) began() int {
	s.stamp()
	return s.slots - 1
}

func (s *schedule) productAlone() {
	s.align()
	start := s.began()
	if s.isStep() {
		s.now.alone = s.stepProducts(start)
	} else {
		s.now.alone = s.marked(start)
	}
	s.add(stepJoin, 0)
}

func (s *schedule) overlappedCalls() {
	s.align()
	s.now.begin = s.began()
	s.yielding = s.beside.left
	s.now.within = s.marked(s.now.begin)
	s.yielding = 0
	s.chainOfCalls()
	s.now.end = s.began()
	s.add(stepJoin, 0)
}

// phasedCalls adds calls in phases: launches of the product run between the sending and the receiving half
// of a call. The alignments between calls are no part of the calls, so the same number of alignments is
// timed afterwards and subtracted. One more call follows, with stamps before and after each part. The timed
// calls have no such stamps, because a stamp takes as long as some of the parts.
func (s *schedule) phasedCalls() {
	s.align()
	s.now.begin = s.began()
	for i := range s.now.calls {
		s.phasedUnit(func() {})
		if s.op != ep.Pair || i == s.now.calls-1 {
			s.align()
		}
	}
	s.now.end = s.began()
	for range s.sectionAligns() {
		s.align()
	}
	s.now.aligned = s.began()
	s.align()
	s.phasedUnit(func() { s.now.halves = append(s.now.halves, s.began()) })
	s.align()
}

// phasedUnit adds a call, a pair, or the calls of a step, in phases. It calls `around` before and after
// each of the three parts of a call.
func (s *schedule) phasedUnit(around func()) {
	calls := []microBatchCall{{s.op, 0}}
	switch {
	case s.isStep():
		calls = stepCalls
	case s.op == ep.Pair:
		calls = []microBatchCall{{ep.Dispatch, 0}, {ep.Combine, 0}}
	}
	for i, c := range calls {
		around()
		s.addCall(c, sending)
		around()
		if s.isStep() {
			s.stepProduct(i, false)
		} else {
			for n := s.beside.share * i / len(calls); n < s.beside.share*(i+1)/len(calls); n++ {
				s.add(stepProduct, n)
			}
		}
		around()
		s.steps = append(s.steps, step{kind: stepCall, op: c.op, n: s.count(c) - 1, span: -1, half: receiving, micro: c.micro})
		around()
	}
}

// microBatchCall is a call of micro-batch 0 or 1.
type microBatchCall struct {
	op    ep.Op
	micro int
}

// addCall adds a call of a micro-batch, or the sending half of the call.
func (s *schedule) addCall(c microBatchCall, h callHalf) {
	s.steps = append(s.steps, step{kind: stepCall, op: c.op, n: s.count(c), span: -1, half: h, micro: c.micro})
	if c.micro == 1 {
		s.secondCalls[c.op]++
	} else {
		s.calls[c.op]++
	}
}

// count returns how many calls of the op and the micro-batch of c were added so far.
func (s *schedule) count(c microBatchCall) int {
	if c.micro == 1 {
		return s.secondCalls[c.op]
	}
	return s.calls[c.op]
}

// stepCalls lists the calls of one layer in a decode step, in order. While a call of one micro-batch runs,
// the other micro-batch computes: attention, the experts, the experts again, and attention of the next
// layer.
var stepCalls = []microBatchCall{{ep.Dispatch, 0}, {ep.Dispatch, 1}, {ep.Combine, 0}, {ep.Combine, 1}}

// stepProduct adds the product that runs during call i of stepCalls: attention for the first and the
// last call, the experts for the others.
func (s *schedule) stepProduct(i int, side bool) {
	if i == 0 || i == 3 {
		s.steps = append(s.steps, step{kind: stepAttention, span: -1, side: side, left: s.yielding})
		return
	}
	for n := range s.beside.share {
		s.steps = append(s.steps, step{kind: stepProduct, n: n, span: -1, side: side, left: s.yielding})
	}
}

// stepProducts adds the products of all steps of a round, on the side stream.
func (s *schedule) stepProducts(start int) productStamps {
	s.add(stepFork, 0)
	for range s.now.calls {
		for i := range stepCalls {
			s.stepProduct(i, true)
		}
	}
	s.sideStamp()
	return productStamps{start, s.slots - 1, []float64{1}}
}

// overlappedSteps adds steps in which each call of one micro-batch overlaps a product of the other. After
// each call and its product, both streams wait for each other. The call is queued first, as serving
// engines do. A product that fills the GPU and is queued first would delay the call until the product
// ends, and nothing would overlap.
func (s *schedule) overlappedSteps() {
	s.align()
	s.now.begin = s.began()
	s.yielding = s.beside.left
	s.add(stepFork, 0)
	for range s.now.calls {
		for i, c := range stepCalls {
			s.addCall(c, whole)
			s.stepProduct(i, true)
			s.add(stepFork, 0)
			s.add(stepJoin, 0)
		}
	}
	s.yielding = 0
	s.now.end = s.began()
	s.align()
}

// roundTimes holds a rank's times in one round with a product, in seconds for each call. If the round
// is made of decode steps, the times are for each layer. done is the fraction of the product that is
// done when the calls end.
type roundTimes struct{ call, product, both, callIn, productIn, done float64 }

// times converts the readings of a round, in nanoseconds, to seconds.
func (s *schedule) times(r []uint64) (sum roundTimes, err error) {
	for i, v := range r {
		if v == 0 {
			return sum, fmt.Errorf("time stamp %d of %d is missing", i, len(r))
		}
	}
	for _, part := range s.sections {
		t := part.times(s.beside.way, r)
		weight := float64(part.calls) / float64(s.fold)
		sum.call += t.call * weight
		sum.product += t.product * weight
		sum.both += t.both * weight
		sum.callIn += t.callIn * weight
		sum.productIn += t.productIn * weight
		sum.done += t.done * weight
	}
	if !(sum.product > 0) {
		return sum, fmt.Errorf("time stamps are out of order: %v", r)
	}
	// On a rank that had to wait for others, differences may be below zero.
	for _, v := range []*float64{&sum.call, &sum.both, &sum.callIn, &sum.productIn} {
		*v = max(*v, ep.LeastCost)
	}
	return sum, nil
}

// times converts the readings of a section to seconds of a call.
func (p *section) times(w way, r []uint64) (t roundTimes) {
	one := func(from, to int) float64 { return (float64(r[to]) - float64(r[from])) / 1e9 }
	span := func(from, to int) float64 { return one(from, to) / float64(p.calls) }
	t.product = span(p.alone.start, p.alone.last())
	switch w {
	case loaded:
		t.productIn = span(p.begin, p.within.last())
		return t
	case onlyProduct:
		return t
	}
	aligned := span(p.chain+1, p.chain+2)
	t.call = span(p.chain, p.chain+1) - aligned
	switch w {
	case overlapped:
		t.productIn = span(p.begin, p.within.last())
		t.callIn = span(p.begin, p.end) - aligned
		t.both = max(t.callIn, t.productIn)
		t.done = p.within.doneAt(r, r[p.end])
	case stepOverlapped:
		t.both, t.done = span(p.begin, p.end), 1
		t.callIn, t.productIn = t.both, t.both
	default:
		t.both, t.done = span(p.begin, p.end)-span(p.end, p.aligned), 1
		for i := 0; i < len(p.halves); i += 4 {
			h := p.halves[i : i+4]
			t.callIn += one(h[0], h[1]) + one(h[2], h[3])
			t.productIn += one(h[1], h[2])
		}
	}
	return t
}

// last returns the index of the stamp at the product's end.
func (c productStamps) last() int { return c.first + len(c.share) - 1 }
