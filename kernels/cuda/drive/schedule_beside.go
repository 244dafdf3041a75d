package drive

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// way is how calls and a matrix product ("the product") run together.
type way int

const (
	noProduct      way = iota
	onlyProduct        // the product without calls
	loaded             // the product alone, then beside synthetic loads or on fewer SMs
	overlapped         // calls and product at the same time
	inPhases           // send, product, receive; one stream
	stepOverlapped     // decode step: two overlapping micro-batches
	stepPhases         // decode step in phases
)

type arrangement struct {
	way   way
	share int  // launches of the product for a call
	left  int  // limit of the product's SMs; 0: none
	load  bool // with the way `loaded`: the product runs beside synthetic loads
}

// marks is the number of time stamps that show the product's progress.
const marks = 4

// section holds the indices of the stamps of a round with a product.
type section struct {
	calls   int
	chain   int           // first of three stamps of aloneChain
	alone   productStamps // the product alone
	within  productStamps // the product beside the calls
	begin   int           // stamp before calls and product
	end     int           // stamp after the last call
	aligned int           // in phases: stamp after the extra alignments
	halves  []int         // in phases: four stamps for each call
}

// productStamps holds the stamps of a product.
type productStamps struct {
	start, first int
	share        []float64 // fraction done at each mark
}

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

// section adds three parts for `calls` calls: the calls alone, the product alone, both together.
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

func (s *schedule) isStep() bool { return s.beside.way == stepOverlapped || s.beside.way == stepPhases }

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

// chainOfCalls adds a section's calls. After each call or decode step comes an alignment: all ranks wait for each
// other. Pairs have a single alignment, at the end.
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

func (s *schedule) sectionAligns() int {
	if s.op == ep.Pair {
		return 1
	}
	return s.now.calls
}

func (s *schedule) launches() int { return s.now.calls * s.beside.share }

// products adds n launches of the product on the side stream. They wait for the calls added so far.
func (s *schedule) products(n int) {
	s.add(stepFork, 0)
	for i := range n {
		s.steps = append(s.steps, step{kind: stepProduct, n: i, span: -1, side: true})
	}
}

// marked adds a section's launches of the product on the side stream, with stamps of its progress.
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

// phasedCalls adds timed calls in phases, with alignments. Then it adds the same number of alignments without calls.
// The time of these alignments is subtracted. Last it adds one call with stamps around each phase. The timed calls have
// no such stamps, because a stamp takes as long as some phases.
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

// phasedUnit adds a call, pair or decode step in phases. It calls `around` before and after each phase.
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

type microBatchCall struct {
	op    ep.Op
	micro int
}

func (s *schedule) addCall(c microBatchCall, h callHalf) {
	s.steps = append(s.steps, step{kind: stepCall, op: c.op, n: s.count(c), span: -1, half: h, micro: c.micro})
	if c.micro == 1 {
		s.secondCalls[c.op]++
	} else {
		s.calls[c.op]++
	}
}

func (s *schedule) count(c microBatchCall) int {
	if c.micro == 1 {
		return s.secondCalls[c.op]
	}
	return s.calls[c.op]
}

// stepCalls lists the calls of one layer of a decode step. During each call the other micro-batch computes: attention
// during calls 0 and 3, the experts during calls 1 and 2.
var stepCalls = []microBatchCall{{ep.Dispatch, 0}, {ep.Dispatch, 1}, {ep.Combine, 0}, {ep.Combine, 1}}

func (s *schedule) stepProduct(i int, side bool) {
	if i == 0 || i == 3 {
		s.steps = append(s.steps, step{kind: stepAttention, span: -1, side: side, left: s.yielding})
		return
	}
	for n := range s.beside.share {
		s.steps = append(s.steps, step{kind: stepProduct, n: n, span: -1, side: side, left: s.yielding})
	}
}

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

// overlappedSteps adds decode steps. Their two streams wait for each other after each call and product. The call is
// queued first, because a product can fill the GPU.
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

// roundTimes holds seconds for each call, or for each layer of decode steps. `done` is the
// fraction of the product that has run when the calls end.
type roundTimes struct{ call, product, both, callIn, productIn, done float64 }

// times converts a round's nanoseconds to seconds.
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
	// A time can be negative, because a rank may wait for others in the subtracted alignments.
	for _, v := range []*float64{&sum.call, &sum.both, &sum.callIn, &sum.productIn} {
		*v = max(*v, ep.LeastCost)
	}
	return sum, nil
}

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

func (c productStamps) last() int { return c.first + len(c.share) - 1 }

// doneAt returns the share of the product that is done at the time `at`. It interpolates between marks.
func (c productStamps) doneAt(r []uint64, at uint64) float64 {
	before, share := r[c.start], 0.0
	for i, done := range c.share {
		mark := r[c.first+i]
		if at < mark {
			if at <= before {
				return share
			}
			return share + (done-share)*float64(at-before)/float64(mark-before)
		}
		before, share = mark, done
	}
	return 1
}
