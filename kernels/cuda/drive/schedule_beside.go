package drive

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// way says how calls and a product run together.
type way int

const (
	noProduct      way = iota
	onlyProduct        // the product alone: how long a pass takes
	loaded             // the product alone, then beside a load or planned for fewer SMs, see schedule.loaded
	overlapped         // calls on a stream of their own, while the product runs on the other
	inPhases           // send, product, receive on one stream: during the product no call holds SMs
	stepOverlapped     // a decode step of two micro-batches: calls of one overlap products of the other
	stepPhases         // the same in phases
)

// arrangement is a way, and how much of the product belongs to a call.
type arrangement struct {
	way   way
	share int  // launches of the product for each call
	left  int  // most SMs that the product is planned for while calls run, 0 for its own plan
	load  bool // of way loaded: a load runs beside the product
}

// marks is how many times the product's progress is stamped.
const marks = 4

// section holds the stamps of one part of a round beside a product: of all its calls, or of one
// call where each needs a dispatch before it.
type section struct {
	calls   int
	chain   int           // first of three: the calls alone, then as many alignments
	alone   productStamps // the product alone
	within  productStamps // the product while calls run
	begin   int           // start of calls and product together
	end     int           // end of the last call; of phases, of everything
	aligned int           // of phases: end of as many alignments after end
	halves  []int         // of phases: four stamps around send, product and receive of each call
}

// productStamps holds the stamps of a product: its start, then marks.
type productStamps struct {
	start, first int
	share        []float64 // share of the product that is done at each mark
}

// withProduct lays out a round beside a product in three parts: the calls alone, as a chain; the
// product alone; and both. A combine that uses up what dispatch left gets a section of its own for
// each call, with a dispatch before the call.
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
	if !s.feed {
		s.refill()
		s.section(s.fold)
		return
	}
	for range s.fold {
		s.section(1)
	}
}

// section lays out the three parts for so many calls.
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

// ready aligns the ranks before calls that are timed.
func (s *schedule) ready() {
	if s.feed {
		s.align()
		s.call(ep.Dispatch)
	}
	s.align()
}

// isStep reports whether the round is made of decode steps.
func (s *schedule) isStep() bool { return s.beside.way == stepOverlapped || s.beside.way == stepPhases }

// aloneChain times the calls alone, and then as many alignments.
func (s *schedule) aloneChain() {
	s.ready()
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

// launches returns how many launches of the product a section has.
func (s *schedule) launches() int { return s.now.calls * s.beside.share }

// products queues launches on the side stream, after what the calls' stream has queued so far.
func (s *schedule) products(n int) {
	s.add(stepFork, 0)
	for i := range n {
		s.steps = append(s.steps, step{kind: stepProduct, n: i, span: -1, side: true})
	}
}

// marked queues the section's launches with stamps of their progress.
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

// began stamps the start of a part and returns the slot.
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
	s.ready()
	s.now.begin = s.began()
	s.yielding = s.beside.left
	s.now.within = s.marked(s.now.begin)
	s.yielding = 0
	s.chainOfCalls()
	s.now.end = s.began()
	s.add(stepJoin, 0)
}

// phasedCalls runs a call's share of the product between its halves. Alignments belong to the chain
// and not to a call, so that as many are timed after it. One more call has stamps around every
// part: in the chain the stamps would cost as much as some parts.
func (s *schedule) phasedCalls() {
	s.ready()
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
	s.ready()
	s.phasedUnit(func() { s.now.halves = append(s.now.halves, s.began()) })
	s.align()
}

// phasedUnit adds a call, or the calls of a step, in phases. It calls around before, between and
// after the three parts of each call.
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

// microBatchCall is a call of one of two micro-batches.
type microBatchCall struct {
	op    ep.Op
	micro int
}

// addCall adds a call of a micro-batch, or its sending half.
func (s *schedule) addCall(c microBatchCall, h callHalf) {
	s.steps = append(s.steps, step{kind: stepCall, op: c.op, n: s.count(c), span: -1, half: h, micro: c.micro})
	if c.micro == 1 {
		s.secondCalls[c.op]++
	} else {
		s.calls[c.op]++
	}
}

// count returns how many calls of an op of a micro-batch were added so far.
func (s *schedule) count(c microBatchCall) int {
	if c.micro == 1 {
		return s.secondCalls[c.op]
	}
	return s.calls[c.op]
}

// stepCalls lists the calls of a layer's step in order. While one runs, the other micro-batch
// computes: attention of the second beside the first dispatch, then the experts of each, and
// attention of the next layer beside the last combine.
var stepCalls = []microBatchCall{{ep.Dispatch, 0}, {ep.Dispatch, 1}, {ep.Combine, 0}, {ep.Combine, 1}}

// stepProduct adds the product that runs beside call i of a step: attention, experts, experts,
// attention. A pass over the experts is one share.
func (s *schedule) stepProduct(i int, side bool) {
	if i == 0 || i == 3 {
		s.steps = append(s.steps, step{kind: stepAttention, span: -1, side: side, left: s.yielding})
		return
	}
	for n := range s.beside.share {
		s.steps = append(s.steps, step{kind: stepProduct, n: n, span: -1, side: side, left: s.yielding})
	}
}

// stepProducts queues all products of a round's steps.
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

// overlappedSteps alternates: a call of one micro-batch beside a product of the other, then both
// streams wait for each other. The call is queued first, as engines do: after a product that
// fills the GPU it would begin only when the product ends, and nothing would overlap.
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

// roundTimes holds a rank's readings of one round beside a product, in seconds of a call, or of a
// layer where the round is made of steps.
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
	// A rank that others kept waiting may have differences below zero.
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

// last returns the stamp at the product's end.
func (c productStamps) last() int { return c.first + len(c.share) - 1 }
