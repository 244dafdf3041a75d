//go:build cuda

package drive

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// explainCalls sets the number of calls in a round. An experiment replaces each call by a synthetic load.
const explainCalls = 8

// scratchBytes limits the bytes that the synthetic loads of a round move.
const scratchBytes = 256 << 20

// Explain implements kernels.Explainer. Calls take two resources from a matrix product that runs at the same time: SMs
// and bandwidth. Each experiment replaces the calls by something that takes one of the two, or both:
//
//   - SMs, by plan: nothing runs beside the product, which is planned for the SMs that the calls would leave free.
//   - SMs, by blocks: the blocks of a synthetic load occupy SMs for as long as a call takes without the product.
//   - bandwidth: a copy engine moves a call's bytes to the next rank, without SMs.
//   - both: blocks occupy SMs and move a call's bytes.
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
	x.sizeLoads(k)
	defer x.close()
	if err := x.scratchMemory(); err != nil {
		return nil, err
	}
	return x.all(ctx, calls)
}

type experiments struct {
	*session
	rounds  int
	sms     int                      // blocks of the largest grid
	ns      int                      // nanoseconds of a call
	bytes   int                      // bytes of the busiest rank in a call
	scratch []cu.DevicePtr           // memory of the synthetic loads, by rank
	entries map[string][]cu.Function // kernels of the synthetic loads, by name and GPU
}

func (x *experiments) calls(ctx context.Context, k *candidate) (e kernels.Effect, err error) {
	p, err := x.program(k, arrangement{way: overlapped, share: x.beside.share}, explainCalls)
	if err != nil {
		return e, asFailure(ep.LaunchFailed, err)
	}
	t, err := x.readTogether(ctx, p, x.rounds)
	if err != nil {
		return e, err
	}
	e = kernels.Effect{Load: "the calls themselves", Alone: slowestOf(t.Product), With: slowestOf(t.ProductIn)}
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

func (x *experiments) sizeLoads(k *candidate) {
	x.sms = k.sms()
	x.bytes = int(x.workload.BytesOp(x.problem.Op, workloads.Dedup))
	x.bytes = max(16, min(x.bytes, scratchBytes/explainCalls)/16*16)
}

func (x *experiments) scratchMemory() error {
	m, err := x.ranks.node.load(sources.Unit{Source: sources.BesideSource})
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
			return asFailure(ep.LaunchFailed, err)
		}
	}
	return nil
}

// shared returns the bytes of shared memory that one block of a synthetic load takes. No second block fits on the same
// SM.
func (x *experiments) shared() int {
	least := x.ranks.local[0].gpu.shared
	for _, s := range x.ranks.local {
		least = min(least, s.gpu.shared)
	}
	return least
}

func (x *experiments) close() {
	for i, at := range x.scratch {
		_ = x.ranks.local[i].gpu.do(func() error { return cu.MemFree(at) })
	}
}

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
		fewer, err := x.effect(ctx, fmt.Sprintf("SMs: nothing runs beside the product, which is planned for %d SMs", planned), nil, left)
		if err != nil {
			return nil, err
		}
		out = append(out, fewer)
	}
	for _, one := range []struct {
		name string
		load syntheticLoad
	}{
		{fmt.Sprintf("SMs: for each call %d blocks hold one SM each for %.1f us and touch no memory", x.sms, float64(x.ns)/1e3), hold},
		{fmt.Sprintf("bandwidth: a copy engine moves a call's %.2f MB to the next rank", float64(x.bytes)/1e6),
			syntheticLoad{engine: true, bytes: x.bytes, from: near, to: next}},
		{fmt.Sprintf("both: for each call %d blocks hold one SM each for %.1f us and move %.2f MB in memory", x.sms, float64(x.ns)/1e3, float64(x.bytes)/1e6), traffic},
	} {
		e, err := x.effect(ctx, one.name, &one.load, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// effect times the product twice: alone, and beside the synthetic load l. If l is nil, the second time has no load, and
// the product has a plan for `sms` SMs.
func (x *experiments) effect(ctx context.Context, name string, l *syntheticLoad, sms int) (e kernels.Effect, err error) {
	a := arrangement{way: loaded, share: x.beside.share, left: sms, load: l != nil}
	t := timing{op: empty, mode: x.problem.Mode, clock: clockChain, fold: explainCalls, beside: a}
	alone, within, err := x.besideRounds(ctx, t, extras{problem: x.problem, beside: x.beside, load: l}, x.rounds)
	return kernels.Effect{Load: name, Alone: slowestOf(alone), With: slowestOf(within)}, err
}
