//go:build cuda

package main

import (
	"encoding/binary"

	"github.com/epbench/epbench/native/epcomm"
	"github.com/epbench/epbench/native/epcomm/gpu"
)

const warmups = 2 // rounds whose times are not reported

// stamps counts the clock readings in a round: one before the calls, one after them, and one after the barriers that
// run without calls.
const stamps = 3

// run measures with the chain clock of kernels/cuda/drive/schedule.go. A graph runs the calls, each followed by a
// barrier. (A chain of pairs has only one barrier, at the end.) Then it runs the barriers alone, and their time is
// subtracted.
func (r *rank) run(q run) ([]float64, error) {
	at := gpu.Alloc(8 * stamps)
	defer gpu.Free(at)
	graph, err := gpu.Capture(r.stream, func() error { return r.chain(q, at) })
	defer gpu.FreeGraph(graph)
	if err != nil {
		return nil, err
	}
	var out []float64
	for i := range q.Rounds + warmups {
		gpu.Replay(graph, r.stream)
		gpu.Wait(r.stream)
		if err := r.comm.Fault(); err != nil {
			return nil, err
		}
		if i >= warmups {
			out = append(out, r.seconds(at)/float64(q.Fold))
		}
	}
	return out, nil
}

func (r *rank) seconds(at gpu.Pointer) float64 {
	data := gpu.Download(at, 8*stamps, r.stream)
	ns := func(i int) uint64 { return binary.NativeEndian.Uint64(data[8*i:]) }
	return added(ns(0), ns(1), ns(2))
}

// added returns the seconds that calls add to a chain of barriers. It subtracts integers: the arguments count
// nanoseconds since 1970, and float64 would round them to multiples of 256.
func added(before, after, alone uint64) float64 {
	return float64(int64(after-before)-int64(alone-after)) / 1e9
}

func (r *rank) chain(q run, at gpu.Pointer) error {
	k, s := r.call(), r.onStream()
	dispatch := func() error { return r.comm.Dispatch(k, s) }
	combine := func() error { return r.comm.Combine(k, s) }
	barrier := func() error { return r.comm.Barrier(s) }
	stamp := func(i int) func() error {
		return func() error { return r.comm.Stamp(epcomm.Pointer(at)+epcomm.Pointer(8*i), s) }
	}
	unit := map[string][]func() error{"dispatch": {dispatch}, "combine": {combine}, "pair": {dispatch, combine}}[q.Op]
	var steps []func() error
	if q.Op == "combine" { // memory may hold the dispatch of another candidate
		steps = append(steps, barrier, dispatch)
	}
	steps = append(steps, barrier, stamp(0))
	barriers := 0
	for i := range q.Fold {
		steps = append(steps, unit...)
		if q.Op != "pair" || i == q.Fold-1 {
			steps = append(steps, barrier)
			barriers++
		}
	}
	steps = append(steps, stamp(1))
	for range barriers {
		steps = append(steps, barrier)
	}
	for _, step := range append(steps, stamp(2)) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
