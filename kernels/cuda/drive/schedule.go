package drive

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// empty is an op that only schedules know: one kernel that does nothing.
const empty ep.Op = "empty"

// stepKind says what a step of a rank's round does.
type stepKind int

const (
	stepAlign     stepKind = iota // wait for all ranks
	stepCall                      // call number n of op
	stepStamp                     // write the time into slot n
	stepEvent                     // record event n
	stepFlush                     // overwrite the L2 cache
	stepClear                     // clear n span readings
	stepExpert                    // the kernel that stands in for the experts
	stepFork                      // the side stream waits for the calls' stream
	stepJoin                      // the calls' stream waits for the side stream
	stepProduct                   // launch n of the product
	stepAttention                 // the product of the size of attention
	stepLoad                      // a load of an experiment
)

// step is one element of a round. Every rank performs the same steps.
type step struct {
	kind  stepKind
	op    ep.Op
	n     int
	span  int // stepCall: its span reading, -1 for none
	half  callHalf
	micro int  // stepCall: the micro-batch whose memory the call uses
	side  bool // on the side stream
	left  int  // stepProduct, stepAttention: most SMs that the product is planned for, 0 for all
}

// callHalf says which of a call's launches a step makes.
type callHalf int

const (
	whole     callHalf = iota
	sending            // all but the last
	receiving          // the last
)

// timing says what a round measures.
type timing struct {
	op    ep.Op // dispatch, combine, pair or empty
	mode  ep.Mode
	clock string
	fold  int  // calls in a round
	feed  bool // each combine needs a dispatch before it

	beside arrangement // of calls and a product; the zero value has no product
}

// schedule is a round and how to read it.
type schedule struct {
	timing
	steps       []step
	slots       int           // stamps that a round writes
	spans       int           // span readings that a round takes
	events      int           // events that a round records
	calls       map[ep.Op]int // calls of each op in a round
	secondCalls map[ep.Op]int // the same of the second micro-batch
	sections    []*section    // of a round beside a product
	now         *section      // the section that is being added
	yielding    int           // step.left of the products that are being added
	apart       bool          // calls are timed one by one, not as a chain
	current     int           // span reading of the calls that are being added
}

// newSchedule lays out one round:
//
//	chain, graph or eager: refill, align, stamp, fold x (call, align), stamp, fold x align, stamp
//	chain, cold or fed:    fold x (prepare, align, stamp, call, align, stamp, align, stamp)
//	span, event:           refill, fold x (prepare, align, call with a reading around it)
//
// Refill is an untimed dispatch before a round of combines. Without it the memory may hold rows of
// an earlier candidate's dispatch: a combine sends next to nothing of them, and would look ten
// times as fast as it is.
//
// A pair is dispatch and combine with nothing between them. A chain of pairs has one alignment at
// its end instead of one after each call.
func newSchedule(t timing) *schedule {
	s := &schedule{timing: t, calls: map[ep.Op]int{}, secondCalls: map[ep.Op]int{}, current: -1}
	s.apart = t.mode == ep.Cold || t.feed
	switch {
	case t.beside.way != noProduct:
		s.withProduct()
	case t.clock != clockChain:
		s.readings()
	case s.apart:
		s.callByCall()
	default:
		s.chain()
	}
	return s
}

func (s *schedule) add(kind stepKind, n int) {
	s.steps = append(s.steps, step{kind: kind, n: n, span: -1})
}

func (s *schedule) align() { s.add(stepAlign, 0) }

func (s *schedule) stamp() {
	s.add(stepStamp, s.slots)
	s.slots++
}

func (s *schedule) call(op ep.Op) {
	s.steps = append(s.steps, step{kind: stepCall, op: op, n: s.calls[op], span: s.current})
	s.calls[op]++
}

// unit adds the calls that are timed.
func (s *schedule) unit() {
	if s.op == ep.Pair {
		s.call(ep.Dispatch)
		s.call(ep.Combine)
		return
	}
	s.call(s.op)
}

// prepare adds what comes before a call that is timed alone.
func (s *schedule) prepare() {
	if s.feed {
		s.align()
		s.call(ep.Dispatch)
	}
	if s.mode == ep.Cold {
		s.add(stepFlush, 0)
	}
	s.align()
}

// aligns returns how many alignments a chain contains.
func (s *schedule) aligns() int {
	if s.op == ep.Pair {
		return 1
	}
	return s.fold
}

// refill gives a round of combines the rows of their own dispatch.
func (s *schedule) refill() {
	if s.op == ep.Combine && !s.feed {
		s.align()
		s.call(ep.Dispatch)
	}
}

func (s *schedule) chain() {
	s.refill()
	s.align()
	s.stamp()
	for i := range s.fold {
		s.unit()
		if s.op != ep.Pair || i == s.fold-1 {
			s.align()
		}
	}
	s.stamp()
	for range s.aligns() {
		s.align()
	}
	s.stamp()
}

func (s *schedule) callByCall() {
	s.refill()
	for range s.fold {
		s.prepare()
		s.stamp()
		s.unit()
		s.align()
		s.stamp()
		s.align()
		s.stamp()
	}
}

func (s *schedule) readings() {
	if s.clock == clockSpan {
		s.add(stepClear, s.fold)
	}
	s.refill()
	for i := range s.fold {
		if i == 0 || s.apart || s.op != ep.Pair {
			s.prepare()
		}
		if s.clock == clockEvent {
			s.add(stepEvent, s.events)
			s.unit()
			s.add(stepEvent, s.events+1)
			s.events += 2
			continue
		}
		s.current = i
		s.unit()
		s.current = -1
		s.spans++
	}
}

// words returns how many 64-bit readings a rank leaves in a round.
func (s *schedule) words() int {
	switch s.clock {
	case clockSpan:
		return 2 * s.spans
	case clockEvent:
		return s.events / 2
	}
	return s.slots
}

// seconds converts a rank's readings of one round, in nanoseconds, to seconds of one call.
func (s *schedule) seconds(r []uint64) (float64, error) {
	var ns float64
	switch {
	case s.clock == clockEvent:
		for _, d := range r {
			ns += float64(d)
		}
	case s.clock == clockSpan:
		for i := 0; i < len(r); i += 2 {
			if r[i] > r[i+1] {
				return 0, fmt.Errorf("call %d left no span: the kernel does not take that reading, use --clock chain", i/2)
			}
			ns += float64(r[i+1] - r[i])
		}
	case len(r)%3 != 0 || len(r) == 0:
		return 0, fmt.Errorf("%d time stamps are no multiple of 3", len(r))
	default:
		for i := 0; i < len(r); i += 3 {
			if r[i] == 0 || r[i] > r[i+1] || r[i+1] > r[i+2] {
				return 0, fmt.Errorf("time stamps %d, %d, %d are out of order", r[i], r[i+1], r[i+2])
			}
			ns += float64(r[i+1]-r[i]) - float64(r[i+2]-r[i+1])
		}
		return max(ns/float64(s.fold)/1e9, kernels.LeastReading), nil
	}
	return ns / float64(s.fold) / 1e9, nil
}

// verificationRound lays out the round that a verification runs. It times nothing. Only a pair has
// no alignment between dispatch and combine. beside is the number of launches
// of a product on the side stream, which begin with the round.
func verificationRound(op ep.Op, beside int) *schedule {
	s := &schedule{timing: timing{op: op, mode: ep.Eager, fold: 1}, calls: map[ep.Op]int{}, current: -1}
	s.align()
	if beside > 0 {
		s.products(beside)
	}
	if op == ep.Activation {
		s.call(op)
		s.align()
		return s
	}
	s.call(ep.Dispatch)
	if op == ep.Combine {
		s.align()
	}
	if op != ep.Dispatch {
		s.add(stepExpert, 0)
		s.call(ep.Combine)
	}
	s.align()
	if beside > 0 {
		s.add(stepJoin, 0)
	}
	return s
}
