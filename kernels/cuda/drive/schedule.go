package drive

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// empty is the op of a kernel that does nothing. Only schedules know it.
const empty ep.Op = "empty"

// stepKind is the kind of a step of a round.
type stepKind int

const (
	stepAlign     stepKind = iota // wait for all ranks; if n > 0, wait n more times and measure the mean time of one wait
	stepCall                      // call number n of op
	stepStamp                     // write the time into slot n
	stepEvent                     // record event n
	stepFlush                     // overwrite the L2 cache, for cold mode
	stepClear                     // clear n span readings
	stepExpert                    // run the kernel that stands in for the experts
	stepFork                      // make the side stream wait for the calls' stream
	stepJoin                      // make the calls' stream wait for the side stream
	stepProduct                   // launch number n of the matrix product
	stepAttention                 // launch the matrix product that stands for attention
	stepLoad                      // launch the load that replaces call n in an experiment
)

// step is one element of a round. Every rank performs the same steps.
type step struct {
	kind  stepKind
	op    ep.Op
	n     int      // number of the call, slot, event or launch
	span  int      // stepCall: index of the span reading that the call writes, -1 for none
	half  callHalf // stepCall: the launches that the step makes
	micro int      // stepCall: the micro-batch whose memory the call uses
	side  bool     // whether the step runs on the side stream
	left  int      // stepProduct, stepAttention: number of SMs that the product is planned for, 0 for all
}

// callHalf selects the launches of a call that a step makes.
type callHalf int

const (
	whole     callHalf = iota // all launches
	sending                   // all launches but the last
	receiving                 // the last launch
)

// timing describes what a round measures, and by which clock.
type timing struct {
	op    ep.Op // dispatch, combine, pair or empty
	mode  ep.Mode
	clock string
	fold  int // number of calls in a round

	beside arrangement // how calls and a matrix product run together; the zero value has no product
}

// schedule lists the steps of a round, and knows how to compute times from the round's readings.
type schedule struct {
	timing
	steps       []step
	slots       int           // number of time stamps that a round writes
	spans       int           // number of span readings that a round takes
	events      int           // number of events that a round records
	calls       map[ep.Op]int // number of calls of each op in a round
	secondCalls map[ep.Op]int // number of calls of the second micro-batch
	sections    []*section    // sections of a round with a matrix product
	now         *section      // the section that is being added
	yielding    int           // step.left of the products that are being added
	apart       bool          // whether calls are timed one by one and not as a chain
	current     int           // step.span of the calls that are being added
}

// newSchedule returns the steps of one round. A call is timed as the time between two stamps, less the
// time of the same number of alignments alone:
//
//	chain in mode graph or eager: refill, flight, align, stamp, fold x (call, align), stamp, fold x align, stamp
//	chain in mode cold:           flight, fold x (prepare, align, stamp, call, align, stamp, align, stamp)
//	span, event:                  refill, flight, fold x (prepare, align, call with a reading around it)
//
// Flight measures how long a flag takes from rank to rank, so that all ranks leave an alignment
// together.
//
// Refill is an untimed dispatch before a round of combines. Without it the memory may hold the rows of
// an earlier candidate's dispatch. A combine would send almost none of these rows, and seem ten times
// as fast as it is.
//
// A pair is dispatch and combine with nothing between them. A chain of pairs has one alignment at
// its end instead of one after each call.
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

// flights is the number of alignments that a round times at its start. It must be even: see ep_align.
const flights = 4

// measureFlight adds the alignments by which the ranks learn how long a flag takes: see ep_align.
func (s *schedule) measureFlight() { s.add(stepAlign, flights) }

func (s *schedule) stamp() {
	s.add(stepStamp, s.slots)
	s.slots++
}

func (s *schedule) call(op ep.Op) {
	s.steps = append(s.steps, step{kind: stepCall, op: op, n: s.calls[op], span: s.current})
	s.calls[op]++
}

// unit adds one timed call, or the two calls of a pair.
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

// aligns returns the number of alignments in a chain.
func (s *schedule) aligns() int {
	if s.op == ep.Pair {
		return 1
	}
	return s.fold
}

// refill adds an untimed dispatch before a round of combines.
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

// words returns the number of 64-bit readings that each rank writes in a round.
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

// verificationRound returns the steps of a verification. It times nothing. If the op is combine, the
// ranks align between dispatch and combine; in a pair they do not. `beside` is the number of launches
// of a matrix product that run on the side stream, from the start of the round.
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
