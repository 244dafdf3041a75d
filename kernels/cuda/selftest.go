//go:build cuda

package cuda

// #include "ep_shim.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/tune/ep"
)

// SelfTest tests what dispatch and combine do not test by themselves: the device
// primitives between ranks, and the fused activation kernels against the oracle.
// It writes a line for each; the error says that some failed. rounds is how often
// messages and signals are passed.
func (b *Backend) SelfTest(ctx context.Context, w io.Writer, rounds int) error {
	ranks := max(2, min(len(b.node.gpus), maxRanks))
	if err := b.checkPeers(ranks); err != nil {
		return err
	}
	failed := 0
	report := func(name string, err error) {
		result := "ok"
		if err != nil {
			failed++
			result = err.Error()
		}
		fmt.Fprintf(w, "%-36s %s\n", name, result)
	}
	for _, l := range litmuses(rounds) {
		report(l.name, b.litmus(ctx, l, ranks))
	}
	for _, a := range activations() {
		report(a.name(), b.activations(ctx, a))
	}
	if failed > 0 {
		return fmt.Errorf("self test: %d failed", failed)
	}
	return nil
}

// litmusState is the memory with which a litmus runs as a call.
func litmusState(l litmus) state {
	return state{"litmus", func(ep.Problem) []Region { return []Region{{"area", l.area, 0}} }, func(ep.Problem) int { return 16 }}
}

// litmus runs l once on all ranks and judges what it left.
func (b *Backend) litmus(ctx context.Context, l litmus, ranks int) error {
	p := ep.Problem{Ranks: ranks, Hidden: 128, Experts: 2 * ranks, TopK: 2, Dispatch: ep.BF16}
	r, err := newRig(b.node, ranks, b.options.Deadline)
	if err != nil {
		return err
	}
	defer r.close()
	memory := litmusState(l)
	r.refill = func() error { return prepareLitmus(r, l) }
	if err := r.allocate(append(rigParts(), stateParts(memory, p)...)); err != nil {
		return err
	}
	u, err := newUnit(litmusSource, p, nil)
	if err != nil {
		return err
	}
	m, err := b.node.load(u)
	if err != nil {
		return err
	}
	entries, err := m.function(l.launch.entry)
	if err != nil {
		return err
	}
	if err := checkResident(r, l.launch, entries); err != nil {
		return err
	}
	c := &call{family: family{state: memory}, launches: []launch{l.launch}, entries: [][]cu.Function{entries}, module: m}
	prog, err := newProgram(r, proof(ep.Dispatch, 0), map[ep.Op]*call{ep.Dispatch: c}, r.args, extras{problem: p})
	if err != nil {
		return err
	}
	defer prog.free()
	if _, err := prog.run(ctx, 1, 0); errors.Is(err, errFault) {
		return errors.New(hangReason(r.faults(), r.deadline))
	} else if err != nil {
		return err
	}
	return judgeLitmus(r, l)
}

func prepareLitmus(r *rig, l litmus) error {
	if l.prepare == nil {
		return nil
	}
	area := make([]byte, l.area)
	l.prepare(area)
	for rank := range r.seats {
		if err := upload(r, rank, "litmus.area", area); err != nil {
			return err
		}
	}
	return nil
}

func judgeLitmus(r *rig, l litmus) error {
	areas, counters := make([][]byte, len(r.seats)), make([][]int32, len(r.seats))
	for rank := range r.seats {
		var err, cerr error
		areas[rank], err = download[byte](r, rank, "litmus.area", 0, int(l.area))
		counters[rank], cerr = download[int32](r, rank, "litmus.counters", 0, 3)
		if err := cmp.Or(err, cerr); err != nil {
			return err
		}
	}
	return l.judge(areas, counters)
}

// activations runs a on ragged groups, an empty one among them.
func (b *Backend) activations(ctx context.Context, a activation) error {
	for i, rows := range [][]int{{5, 0, 3, 0}, {130, 1}, {1000, 24}} {
		x := newActivated(a, a.tile*16, 1100, rows, activationValues(uint64(i)))
		if err := b.activate(ctx, a, x); err != nil {
			return err
		}
		if err := x.check(a); err != nil {
			return fmt.Errorf("rows %v: %w", rows, err)
		}
	}
	return nil
}

// activate runs one call on GPU 0 and puts its outputs back into x.
func (b *Backend) activate(ctx context.Context, a activation, x *activated) error {
	const threads = 256
	r, err := newRig(b.node, 1, b.options.Deadline)
	if err != nil {
		return err
	}
	defer r.close()
	groups := len(x.inputScales)
	err = r.allocate(append(rigParts(),
		Region{"in", int64(2 * len(x.in)), 0}, Region{"out", int64(len(x.out)), x.poison},
		Region{"scales", int64(len(x.scales)), x.poison}, Region{"offsets", int64(4 * (groups + 1)), 0},
		Region{"input_scales", int64(4 * groups), 0}, Region{"scale_offsets", int64(4 * groups), 0}))
	if err == nil {
		err = errors.Join(upload(r, 0, "in", x.in), upload(r, 0, "offsets", x.rowOffsets),
			upload(r, 0, "input_scales", x.inputScales), upload(r, 0, "scale_offsets", x.scaleOffsets))
	}
	if err != nil {
		return err
	}
	m, err := b.node.load(Unit{a.source, a.defines(x.columns, threads)})
	if err != nil {
		return err
	}
	f, err := m.function(a.entry)
	if err != nil {
		return err
	}
	c := newCode(1, 1)
	defer c.free()
	s := &c.steps[0][0]
	*s = C.EpStep{kind: C.EP_STEP_KERNEL, grid: C.uint32_t(b.node.gpus[0].sms), block: threads, object: handle(f[0])}
	*(*C.EpSiluArgs)(unsafe.Pointer(&s.args)) = siluArgs(r, a, x)
	c.ranks[0].context, c.ranks[0].stream = handle(r.seats[0].gpu.context), handle(r.seats[0].stream)
	if _, err := c.run(ctx, batch{rounds: 1, window: 1, limit: slack.Nanoseconds()}); err != nil {
		return err
	}
	if x.out, err = download[byte](r, 0, "out", 0, len(x.out)); err != nil {
		return err
	}
	x.scales, err = download[byte](r, 0, "scales", 0, len(x.scales))
	return err
}

func siluArgs(r *rig, a activation, x *activated) C.EpSiluArgs {
	args := C.EpSiluArgs{max_rows: C.int64_t(x.maxRows), groups: C.int32_t(len(x.inputScales))}
	point(&args.in, r.at(0, "in"))
	point(&args.out, r.at(0, "out"))
	point(&args.scales, r.at(0, "scales"))
	point(&args.row_offsets, r.at(0, "offsets"))
	point(&args.input_scales, r.at(0, "input_scales"))
	point(&args.scale_offsets, r.at(0, "scale_offsets"))
	if c := a.how.Clamp; c != nil {
		args.limit, args.alpha = C.float(c.Limit), C.float(c.Alpha)
	}
	return args
}
