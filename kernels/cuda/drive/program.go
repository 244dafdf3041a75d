//go:build cuda

package drive

/*
#include "ep_shim.h"

// set_own sets members of an anonymous union, which Go cannot name.
static void set_own(EpArgs *a, int32_t first, int32_t second, int32_t third, int32_t fourth) {
  a->rotate = first, a->pause_ns = second, a->cell_bytes = third, a->peer = fourth;
}
*/
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

// program holds the steps of a candidate. The shim (native/shim) runs them, round after round.
type program struct {
	*schedule
	ranks  *rankSet
	native *cSteps
	marks  [][]cu.Event // [rank] recorded events
	long   bool         // rounds are long or the GPU is warm, so one warm-up round is enough
	took   ep.RunTime   // host time of all runs
}

// queuedSteps is the number of steps that are queued without waiting. If the driver's queue were full, the thread of a
// rank would block, while other ranks wait for the next steps of this rank.
const queuedSteps = 512

// maxFold bounds the calls in a round, so that their readings fit in declare.ReadingWords.
const maxFold = 4096

type writer struct {
	ranks *rankSet
	rank  int
	base  C.EpArgs
	calls map[ep.Op]*call
	extra extras
	out   []C.EpStep
	used  int        // steps so far
	last  C.uint32_t // kind of the latest step on the calls' stream
}

// extras holds the data for those steps that are not calls.
type extras struct {
	problem ep.Problem
	expert  []cu.Function  // stand-in for the experts
	beside  *products      // matrix product, or nil
	load    *syntheticLoad // replaces the calls, or nil
	drill   Drill
	silu    func(rank, call int) C.EpSiluArgs // arguments of activations
}

// newProgram writes the steps of every rank. `args` returns the arguments that all kernels of a rank share.
func newProgram(r *rankSet, s *schedule, calls map[ep.Op]*call, args func(rank int) C.EpArgs, x extras) (*program, error) {
	p := &program{schedule: s, ranks: r}
	count := p.count(calls)
	p.native = newCSteps(len(r.local), count)
	for i := range r.local {
		w := &writer{ranks: r, rank: i, base: args(i), calls: calls, extra: x, out: p.native.steps[i]}
		if err := p.makeEvents(i); err != nil {
			p.free()
			return nil, err
		}
		for _, st := range s.steps {
			w.write(st, p)
		}
		w.finish(s)
		if w.used != count {
			p.free()
			return nil, fmt.Errorf("rank %d has %d steps instead of %d", i, w.used, count)
		}
		p.wire(i)
	}
	return p, nil
}

func (p *program) count(calls map[ep.Op]*call) int {
	n := 0
	for _, st := range p.steps {
		if st.kind == stepCall && calls[st.op] != nil {
			n += len(calls[st.op].part(st.half))
		} else {
			n++
		}
	}
	for _, lane := range []map[ep.Op]int{p.calls, p.secondCalls} {
		for op, made := range lane {
			if calls[op] != nil && made > 0 {
				n++ // ep_advance of the op
			}
		}
	}
	return n + 1 // ep_next_round
}

func (p *program) makeEvents(rank int) error {
	p.marks = append(p.marks, nil)
	return p.ranks.local[rank].gpu.do(func() error {
		for range p.events {
			e, err := cu.MakeEvent(cu.DefaultEvent)
			if err != nil {
				return fmt.Errorf("rank %d: event: %w", rank, err)
			}
			p.marks[rank] = append(p.marks[rank], e)
		}
		return nil
	})
}

func (p *program) wire(i int) {
	r, e := p.ranks.local[i], &p.native.ranks[i]
	e.context, e.stream = handle(r.gpu.context), handle(r.stream)
	if s := r.streams; s.calls != 0 {
		e.stream, e.side, e.forked, e.joined = s.calls, s.side, s.forked, s.joined
	}
	e.fault = r.fault
	control := C.EpControl{}
	e.replay = C.uint64_t(p.ranks.at(i, declare.PartControl)) + C.uint64_t(unsafe.Offsetof(control.replay))
	if p.words() > 0 {
		e.collect = C.uint64_t(p.ranks.at(i, declare.PartReadings))
	}
	if p.clock == clockEvent {
		p.native.setEvents(i, p.marks[i])
	}
}

func (p *program) window() int {
	if p.clock != clockChain || len(p.ranks.local) > len(p.ranks.node.gpus) {
		return 1
	}
	return max(1, min(queuedSteps/len(p.native.steps[0]), declare.ReadingWords/max(p.words(), 1)))
}

func (p *program) free() {
	for i, events := range p.marks {
		_ = p.ranks.local[i].gpu.do(func() error {
			for _, e := range events {
				_ = cu.DestroyEvent(&e)
			}
			return nil
		})
	}
	p.native.free()
}

// next adds a step on the calls' stream.
func (w *writer) next(kind C.uint32_t) *C.EpStep {
	s := &w.out[w.used]
	w.used++
	*s = C.EpStep{kind: kind}
	w.last = kind
	return s
}

// aside moves the latest step to the side stream. `before` is the kind of the step before the latest step.
func (w *writer) aside(before C.uint32_t) {
	w.out[w.used-1].flags |= C.EP_STEP_SIDE
	w.last = before
}

func (w *writer) kernel(f []cu.Function, grid, block int, args C.EpArgs) *C.EpStep {
	s := w.next(C.EP_STEP_KERNEL)
	s.grid, s.block = C.uint32_t(grid), C.uint32_t(block)
	s.object = handle(f[w.ranks.local[w.rank].gpu.index])
	*(*C.EpArgs)(unsafe.Pointer(&s.args)) = args
	return s
}

// support adds a kernel of common/align.cuh, with n in EpArgs.stamp.
func (w *writer) support(entry string, args C.EpArgs, n int) {
	args.stamp = C.int32_t(n)
	w.kernel(w.ranks.support[entry], 1, declare.Warp, args)
}

func (w *writer) write(st step, p *program) {
	before := w.last
	w.writeStep(st, p)
	if st.side {
		w.aside(before)
	}
}

func (w *writer) writeStep(st step, p *program) {
	args := w.base
	switch st.kind {
	case stepAlign:
		w.support("ep_align", args, st.n)
	case stepStamp:
		w.readings(&args, p)
		w.support("ep_stamp", args, st.n)
	case stepClear:
		point(&args.span, w.ranks.at(w.rank, declare.PartReadings))
		w.support("ep_clear_spans", args, st.n)
	case stepEvent:
		w.next(C.EP_STEP_EVENT).object = handle(p.marks[w.rank][st.n])
	case stepFlush:
		s := w.next(C.EP_STEP_MEMSET)
		s.target, s.words = C.uint64_t(w.ranks.at(w.rank, declare.PartFlush)), declare.FlushBytes/4
	case stepFork:
		w.next(C.EP_STEP_FORK)
	case stepJoin:
		w.next(C.EP_STEP_JOIN)
	case stepProduct:
		w.extra.beside.write(w, st.n, st.left)
	case stepAttention:
		w.extra.beside.attention.write(w, 0, st.left)
	case stepLoad:
		w.extra.load.write(w, st.n)
	case stepExpert:
		w.kernel(w.extra.expert, 2*w.ranks.local[w.rank].gpu.sms, 256, args)
	case stepCall:
		w.call(st, args)
	}
}

func (w *writer) readings(args *C.EpArgs, p *program) {
	point(&args.stamps, w.ranks.at(w.rank, declare.PartReadings))
	args.stamp_slots = C.int32_t(p.slots)
}

func (w *writer) call(st step, args C.EpArgs) {
	if st.span >= 0 {
		point(&args.span, w.ranks.at(w.rank, declare.PartReadings)+cu.DevicePtr(16*st.span))
	}
	k := w.calls[st.op]
	if k == nil { // empty kernel
		w.support("ep_empty", args, 0)
		return
	}
	w.toState(&args, stateOf(w.calls).Of(st.micro), w.extra.problem, st.op)
	args.round = C.uint32_t(st.n + 1)
	if d := w.extra.drill; d.Rank == w.ranks.rankOf(w.rank) {
		args.delay_ns, args.drop_signal = C.int32_t(d.Delay.Nanoseconds()), C.int32_t(d.Drop)
	}
	for _, i := range k.part(st.half) {
		l := k.launches[i]
		setParams(&args, l.Params)
		after := w.used > 0 && w.last == C.EP_STEP_KERNEL
		s := w.kernel(k.entries[i], l.Grid, l.Block, args)
		s.shared = C.uint32_t(l.Shared)
		if st.op == ep.Activation {
			*(*C.EpSiluArgs)(unsafe.Pointer(&s.args)) = w.extra.silu(w.rank, st.n)
		}
		if l.PDL && after { // programmatic dependent launch must follow a kernel
			s.flags |= C.EP_LAUNCH_PDL
		}
	}
}

// toState points args to the memory and the call number of a state.
func (w *writer) toState(args *C.EpArgs, s declare.State, p ep.Problem, op ep.Op) {
	point(&args.counters, w.ranks.at(w.rank, s.Part("counters")))
	point(&args.round_base, w.ranks.at(w.rank, s.Part("rounds"))+cu.DevicePtr(4*declare.OpIndex(op)))
	for i, region := range s.RegionsFor(p) {
		args.region[i] = C.uint64_t(w.ranks.heap.Offset[s.Part(region.Name)])
	}
}

func setParams(args *C.EpArgs, p declare.LaunchParams) {
	args.sms, args.wait_sms, args.count_sms = C.int32_t(p.SMs), C.int32_t(p.WaitSMs), C.int32_t(p.CountSMs)
	args.tile_tokens, args.chunk_bytes = C.int32_t(p.TileTokens), C.int32_t(p.ChunkBytes)
	C.set_own(args, C.int32_t(p.Own[0]), C.int32_t(p.Own[1]), C.int32_t(p.Own[2]), C.int32_t(p.Own[3]))
}

// finish ends a round: call numbers advance, and stamps move to the next row.
func (w *writer) finish(s *schedule) {
	for lane, calls := range []map[ep.Op]int{s.calls, s.secondCalls} {
		for _, op := range ops {
			k := w.calls[op]
			if k == nil || calls[op] == 0 {
				continue
			}
			args := w.base
			w.toState(&args, stateOf(w.calls).Of(lane), w.extra.problem, op)
			w.support("ep_advance", args, calls[op])
		}
	}
	w.support("ep_next_round", w.base, 0)
}
