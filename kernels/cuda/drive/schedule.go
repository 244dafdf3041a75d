package drive

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// empty is the op of a kernel that does nothing.
const empty ep.Op = "empty"

type stepKind int

const (
	stepAlign     stepKind = iota // wait for all ranks, 1 + n times
	stepCall                      // number n of op
	stepStamp                     // time stamp into slot n
	stepEvent                     // event n
	stepFlush                     // overwrite the L2 cache
	stepClear                     // clear n span readings
	stepExpert                    // stand-in for the experts
	stepFork                      // side stream waits for calls
	stepJoin                      // calls wait for side stream
	stepProduct                   // launch n of the matrix product
	stepAttention                 // matrix product for attention
	stepLoad                      // synthetic load in the place of call n
)

// step is one element of a round, the same on every rank.
type step struct {
	kind  stepKind
	op    ep.Op
	n     int      // number of call, slot, event or launch
	span  int      // stepCall: index of its span reading, or -1
	half  callHalf // stepCall: its launches
	micro int      // stepCall: its micro-batch
	side  bool     // on the side stream
	left  int      // products: planned SMs, 0 for all
}

// callHalf selects launches of a call.
type callHalf int

const (
	whole     callHalf = iota // all
	sending                   // all but the last
	receiving                 // the last
)

// timing says what a round measures, and by which clock.
type timing struct {
	op    ep.Op // dispatch, combine, pair or empty
	mode  ep.Mode
	clock string
	fold  int // calls in a round

	beside arrangement // zero without a product
}

// schedule lists a round's steps and computes times from its readings.
type schedule struct {
	timing
	steps       []step
	slots       int           // time stamps
	spans       int           // span readings
	events      int           // recorded events
	calls       map[ep.Op]int // calls of each op
	secondCalls map[ep.Op]int // calls of the second micro-batch
	sections    []*section    // for a matrix product
	now         *section      // section that is being added
	yielding    int           // step.left of the products added next
	apart       bool          // calls are timed one by one
	current     int           // step.span of the calls added next
}

// newSchedule returns the steps of one round. In an alignment, all ranks wait for each other. With the clock "chain",
// the first interval between stamps has calls and alignments, and the second has equally many alignments without calls.
// The first interval minus the second is the time of the calls:
//
//	chain in mode graph or eager: refill, flight, align, stamp, fold x (call, align), stamp, fold x align, stamp
//	chain in mode cold:           flight, fold x (prepare, align, stamp, call, align, stamp, align, stamp)
//	span, event:                  refill, flight, fold x (prepare, align, call with a reading around it)
//
// The functions refill, measureFlight and prepare add the steps of these names ("flight" is measureFlight). A chain of
// pairs has one alignment, at its end.
func newSchedule(t timing) *schedule {
	s := &schedule{timing: t, calls: map[ep.Op]int{}, secondCalls: map[ep.Op]int{}, current: -1}
	s.apart = t.mode == ep.Cold
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

// flights is the number of alignments timed at a round's start. It must be even: see ep_align.
const flights = 4

// measureFlight adds alignments that measure how long a flag takes from one rank to another. With this time, ranks
// leave an alignment together.
func (s *schedule) measureFlight() { s.add(stepAlign, flights) }

func (s *schedule) stamp() {
	s.add(stepStamp, s.slots)
	s.slots++
}

func (s *schedule) call(op ep.Op) {
	s.steps = append(s.steps, step{kind: stepCall, op: op, n: s.calls[op], span: s.current})
	s.calls[op]++
}

func (s *schedule) unit() {
	if s.op == ep.Pair {
		s.call(ep.Dispatch)
		s.call(ep.Combine)
		return
	}
	s.call(s.op)
}

// prepare adds the steps before a call that is timed alone.
func (s *schedule) prepare() {
	if s.mode == ep.Cold {
		s.add(stepFlush, 0)
	}
	s.align()
}

func (s *schedule) aligns() int {
	if s.op == ep.Pair {
		return 1
	}
	return s.fold
}

// refill adds an untimed dispatch before combines. A combine sends back the rows of a dispatch of the same candidate.
func (s *schedule) refill() {
	if s.op == ep.Combine {
		s.align()
		s.call(ep.Dispatch)
	}
}

func (s *schedule) chain() {
	s.refill()
	s.measureFlight()
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
	s.measureFlight()
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
	s.measureFlight()
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

func (s *schedule) words() int {
	switch s.clock {
	case clockSpan:
		return 2 * s.spans
	case clockEvent:
		return s.events / 2
	}
	return s.slots
}

// seconds converts a round's nanoseconds to seconds of one call.
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
				return 0, fmt.Errorf("call %d has no span: its kernel does not stamp its start and end; use --clock chain", i/2)
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

// verificationRound returns the steps of a verification. `beside` launches of a product run on the side stream.
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
