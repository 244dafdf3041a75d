//go:build cuda

package main

import (
	"encoding/binary"

	"github.com/epbench/epbench/native/epcomm"
	"github.com/epbench/epbench/native/epcomm/gpu"
)

// warmups is the number of rounds before the reported ones.
const warmups = 2

// stamps is the number of time stamps of a round: before the calls, after them, and after the
// barriers alone.
const stamps = 3

// run measures the chain clock, as kernels/cuda/drive/schedule.go does: what a call adds to a
// graph of calls, less the barriers. A barrier over ranks follows each call; of pairs, one
// barrier follows the chain.
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

// seconds returns the time of the calls in the last round of the stream.
func (r *rank) seconds(at gpu.Pointer) float64 {
	data := gpu.Download(at, 8*stamps, r.stream)
	ns := func(i int) uint64 { return binary.NativeEndian.Uint64(data[8*i:]) }
	return added(ns(0), ns(1), ns(2))
}

// added returns the time of calls with barriers less that of the barriers alone, in seconds.
// It subtracts integers: stamps count nanoseconds since 1970, which float64 rounds to
// multiples of 256.
func added(before, after, alone uint64) float64 {
	return float64(int64(after-before)-int64(alone-after)) / 1e9
}

// chain queues one round on the stream.
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
