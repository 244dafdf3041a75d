//go:build cuda

package main

import (
	"encoding/binary"

	"github.com/epbench/epbench/native/epcomm"
	"github.com/epbench/epbench/native/epcomm/gpu"
)

// warmups are rounds before those that are reported.
const warmups = 2

// stamps of a round: before the calls, after them, after the barriers alone.
const stamps = 3

// run measures the chain clock, as kernels/cuda/drive/schedule.go lays it out: what a call adds
// to a graph of calls, each followed by a barrier over ranks (a pair: the chain by one),
// less the barriers alone.
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

// seconds of the calls of the round that the stream has passed.
func (r *rank) seconds(at gpu.Pointer) float64 {
	data := gpu.Download(at, 8*stamps, r.stream)
	ns := func(i int) uint64 { return binary.NativeEndian.Uint64(data[8*i:]) }
	return added(ns(0), ns(1), ns(2))
}

// added returns the time of calls with barriers, less that of the barriers alone, in seconds.
// Integers are subtracted: stamps count nanoseconds since 1970, and float64 rounds those to
// multiples of 256.
func added(before, after, alone uint64) float64 {
	return float64(int64(after-before)-int64(alone-after)) / 1e9
}

// chain puts one round on the stream.
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
	if q.Op == "combine" { // its own dispatch, since another candidate may have run before
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
