//go:build cuda

package main

import (
	"github.com/epbench/epbench/native/epcomm"
	"github.com/epbench/epbench/native/epcomm/gpu"
)

// warmups are rounds before those that are reported.
const warmups = 2

// run measures the chain clock: what a call adds to a graph of calls, each followed
// by a barrier over ranks (a pair: the chain by one), less the barriers alone.
// Events tell the time, whose own cost is in both parts.
func (r *rank) run(q run) ([]float64, error) {
	marks := [3]gpu.Event{gpu.NewEvent(), gpu.NewEvent(), gpu.NewEvent()}
	defer func() {
		for _, e := range marks {
			gpu.FreeEvent(e)
		}
	}()
	graph, err := gpu.Capture(r.stream, func() error { return r.chain(q, marks) })
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
			out = append(out, (gpu.Seconds(marks[0], marks[1])-gpu.Seconds(marks[1], marks[2]))/float64(q.Fold))
		}
	}
	return out, nil
}

// chain puts one round on the stream.
func (r *rank) chain(q run, marks [3]gpu.Event) error {
	k, s := r.call(), r.onStream()
	steps := []func() error{r.barrier}
	if q.Op == "combine" { // its own dispatch, since another candidate may have run before
		steps = append(steps, func() error { return r.comm.Dispatch(k, s) }, r.barrier)
	}
	steps = append(steps, r.mark(marks[0]))
	barriers := 0
	for i := range q.Fold {
		if q.Op != "combine" {
			steps = append(steps, func() error { return r.comm.Dispatch(k, s) })
		}
		if q.Op != "dispatch" {
			steps = append(steps, func() error { return r.comm.Combine(k, s) })
		}
		if q.Op != "pair" || i == q.Fold-1 {
			steps = append(steps, r.barrier)
			barriers++
		}
	}
	steps = append(steps, r.mark(marks[1]))
	for range barriers {
		steps = append(steps, r.barrier)
	}
	for _, step := range append(steps, r.mark(marks[2])) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *rank) barrier() error { return r.comm.Barrier(epcomm.Stream(uintptr(r.stream))) }

func (r *rank) mark(e gpu.Event) func() error {
	return func() error { gpu.Record(e, r.stream); return nil }
}
