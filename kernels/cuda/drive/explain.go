//go:build cuda

package drive

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// explainCalls are the calls that the product of an experiment belongs to.
const explainCalls = 8

// scratchBytes is the most that a load moves on from; what is more goes round.
const scratchBytes = 256 << 20

// Explain implements kernels.Explainer. Of SMs taken there are two experiments: the
// library plans for those that are left, where they are a quarter of the GPU or more, and
// blocks hold as many and do nothing, for each call as long as it takes alone. As long as
// it takes beside the product would be too long: most of that its blocks wait for SMs and
// hold none. Of bandwidth taken there are two: a copy engine moves the call's bytes to the
// next rank and takes no SM, and blocks on as many SMs move them. The last one takes both,
// so that what it adds to holding is the bandwidth's. Each experiment has the product
// alone in its own rounds.
func (s *session) Explain(ctx context.Context, c ep.Config, rounds int) ([]kernels.Effect, error) {
	if s.beside == nil || s.beside.of.Kind != ep.Gemm {
		return nil, fmt.Errorf("beside: %q; an explanation needs gemm", s.problem.Beside)
	}
	k, err := s.prepared(c)
	if err != nil {
		return nil, err
	}
	if err := s.readyProduct(ctx); err != nil {
		return nil, err
	}
	x := &experiments{session: s, rounds: max(rounds, sizingRounds)}
	calls, err := x.calls(ctx, k)
	if err != nil {
		return nil, err
	}
	x.take(k)
	defer x.close()
	if err := x.scratchMemory(); err != nil {
		return nil, err
	}
	return x.all(ctx, calls)
}

// experiments are the loads of one candidate.
type experiments struct {
	*session
	rounds  int
	sms     int // of the candidate's largest grid
	ns      int // that a call takes alone
	bytes   int // that a call of the busiest rank sends
	scratch []cu.DevicePtr
	entries map[string][]cu.Function
}

// calls is the product beside the candidate itself.
func (x *experiments) calls(ctx context.Context, k *candidate) (e kernels.Effect, err error) {
	// Planned for all SMs, as beside the loads.
	p, err := x.program(k, arrangement{way: overlapped, share: x.beside.share}, explainCalls)
	if err != nil {
		return e, asFailure(ep.NoLaunch, err)
	}
	t, err := x.together(ctx, p, x.rounds)
	if err != nil {
		return e, err
	}
	e = kernels.Effect{Beside: "the calls themselves", Alone: slowestOf(t.Product), With: slowestOf(t.ProductIn)}
	x.ns = int(kernels.Rounds{Seconds: t.Call}.MedianOfSlowest() * 1e9)
	return e, nil
}

func slowestOf(rounds [][]float64) []float64 {
	out := make([]float64, len(rounds))
	for i, ranks := range rounds {
		out[i] = slices.Max(ranks)
	}
	return out
}

// take gives the loads as many SMs and bytes as the candidate uses.
func (x *experiments) take(k *candidate) {
	x.sms = k.sms()
	x.bytes = int(x.workload.BytesOp(x.problem.Op, workloads.Dedup))
	x.bytes = max(16, min(x.bytes, scratchBytes/explainCalls)/16*16)
}

// scratchMemory holds what loads move and where it goes, on every rank.
func (x *experiments) scratchMemory() error {
	m, err := x.ranks.node.load(declare.Unit{Source: declare.BesideSource})
	if err != nil {
		return err
	}
	x.entries = map[string][]cu.Function{}
	for _, name := range []string{"beside_hold", "beside_traffic"} {
		if x.entries[name], err = m.function(name); err != nil {
			return err
		}
	}
	for _, r := range x.ranks.local {
		err := r.gpu.do(func() error {
			for _, name := range []string{"beside_hold", "beside_traffic"} {
				if _, err := readyFunction(x.entries[name][r.gpu.index], declare.MaxThreads, x.shared()); err != nil {
					return err
				}
			}
			at, err := cu.MemAlloc(2 * explainCalls * int64(x.bytes))
			x.scratch = append(x.scratch, at)
			return err
		})
		if err != nil {
			return asFailure(ep.NoLaunch, err)
		}
	}
	return nil
}

// shared is so much shared memory that a block has its SM for itself.
func (x *experiments) shared() int {
	least := x.ranks.local[0].gpu.shared
	for _, s := range x.ranks.local {
		least = min(least, s.gpu.shared)
	}
	return least
}

func (x *experiments) close() {
	for i, at := range x.scratch {
		_ = x.ranks.local[i].gpu.do(func() error { return cu.MemFree(at) }) // the session goes next
	}
}

// all measures the loads behind the calls themselves.
func (x *experiments) all(ctx context.Context, calls kernels.Effect) ([]kernels.Effect, error) {
	near := func(rank int) cu.DevicePtr { return x.scratch[rank] }
	behind := func(rank int) cu.DevicePtr { return x.scratch[rank] + cu.DevicePtr(explainCalls*x.bytes) }
	next := func(rank int) cu.DevicePtr { return behind((rank + 1) % len(x.scratch)) }
	hold := syntheticLoad{entry: x.entries["beside_hold"], sms: x.sms, shared: x.shared(), ns: x.ns, from: near, to: behind}
	traffic := hold
	traffic.entry, traffic.bytes = x.entries["beside_traffic"], x.bytes
	out := []kernels.Effect{calls}
	if all := x.ranks.local[0].gpu.sms; 4*(all-x.sms) >= all {
		left := all - x.sms
		planned := planBeside(x.beside.own, left)
		if err := x.beside.planFor(planned); err != nil {
			return nil, err
		}
		fewer, err := x.effect(ctx, fmt.Sprintf("SMs: nothing, planned for %d SMs", planned), nil, left)
		if err != nil {
			return nil, err
		}
		out = append(out, fewer)
	}
	for _, one := range []struct {
		name string
		load syntheticLoad
	}{
		{fmt.Sprintf("SMs: %d blocks a call hold one SM each for its %.1f us and touch no memory", x.sms, float64(x.ns)/1e3), hold},
		{fmt.Sprintf("bandwidth: a copy engine moves a call's %.2f MB to the next rank", float64(x.bytes)/1e6),
			syntheticLoad{engine: true, bytes: x.bytes, from: near, to: next}},
		{fmt.Sprintf("both: %d blocks a call hold one SM each as long and move these bytes in memory", x.sms), traffic},
	} {
		e, err := x.effect(ctx, one.name, &one.load, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// effect times the calls' share of the product alone and, in the same rounds, beside a
// load for each call or as planned for so many SMs.
func (x *experiments) effect(ctx context.Context, name string, l *syntheticLoad, sms int) (e kernels.Effect, err error) {
	a := arrangement{way: loaded, share: x.beside.share, left: sms, load: l != nil}
	t := timing{op: empty, mode: x.problem.Mode, clock: clockChain, fold: explainCalls, beside: a}
	alone, within, err := x.besideRounds(ctx, t, extras{problem: x.problem, beside: x.beside, load: l}, x.rounds)
	return kernels.Effect{Beside: name, Alone: slowestOf(alone), With: slowestOf(within)}, err
}
