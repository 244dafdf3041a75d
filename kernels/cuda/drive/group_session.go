//go:build cuda

package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// groupSession is a session on all ranks of a rankGroup.
type groupSession struct {
	*rankGroup
	problem ep.Problem
	outputs *ref.Remote
	again   int // number of runs that were repeated since the last note about them
}

// Prepare compiles on rank 0 first, because other ranks may share its cache. All ranks check their memory before any
// rank allocates. Otherwise a rank without enough memory would stop, and the other ranks would wait for it.
func (s *groupSession) Prepare(_ context.Context, c ep.Config) error {
	units, err := candidateUnits(s.first.backend.machine, s.problem, c)
	if err != nil {
		return asFailure(ep.Illegal, err)
	}
	if _, err := s.first.backend.node.compiler.CompileAll(units...); err != nil {
		return asFailure(ep.CompileFailed, err)
	}
	if _, err := s.ask(task{Fits: &c}); err != nil {
		return err
	}
	_, err = s.ask(task{Prepare: &c})
	return err
}

func (s *groupSession) Run(_ context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	s.outputs.Forget()
	all, err := s.attempt(task{Run: &runTask{c, spec.Rounds, spec.Fold}})
	if err != nil {
		return kernels.Rounds{}, err
	}
	out := all[0].Rounds
	for _, a := range all[1:] {
		for i, times := range a.Rounds.Seconds {
			out.Seconds[i] = append(out.Seconds[i], times...)
		}
		out.MHz = append(out.MHz, a.Rounds.MHz...)
		out.Notes = append(out.Notes, a.Rounds.Notes...)
	}
	if len(out.MHz) != len(all) {
		out.MHz = nil
	}
	if s.again > 0 {
		out.Notes = append(out.Notes, beganAgain(s.again, s.first.backend.options.Deadline))
		s.again = 0
	}
	return out, nil
}

// attempt performs a task and recovers after a failure. It repeats the task once if a rank's work did not begin.
func (s *groupSession) attempt(t task) ([]answer, error) {
	all, err := s.ask(t)
	if err != nil && neverBegan(faultsOf(all)) {
		if err := s.recover(); err != nil {
			return nil, err
		}
		s.again++
		all, err = s.ask(t)
	}
	if err == nil {
		return all, nil
	}
	var f *kernels.Failure
	if !errors.As(err, &f) {
		return nil, err // a rank is gone
	}
	if rerr := s.recover(); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	return nil, err
}

// recover makes all memory usable after a failure. The ranks first wait for messages in flight, because such a message
// could later be taken for a signal of another call.
func (s *groupSession) recover() error {
	if _, err := s.ask(task{Settle: true}); err != nil {
		return err
	}
	_, err := s.ask(task{Reset: true})
	return err
}

func (s *groupSession) Verify(_ context.Context, c ep.Config) (kernels.Comparison, error) {
	s.outputs.Forget()
	start := time.Now()
	if _, err := s.attempt(task{Verify: &c}); err != nil {
		return kernels.Comparison{}, err
	}
	running := time.Since(start).Seconds()
	configs, err := opConfigs(s.first.backend.machine, s.problem, c)
	if err != nil {
		return kernels.Comparison{}, err
	}
	dispatch, err := declare.JudgedAs(s.problem, configs[ep.Dispatch])
	var combine ref.Compare
	if k, ok := configs[ep.Combine]; ok && err == nil {
		combine, err = declare.JudgedAs(s.problem, k)
	}
	if err != nil {
		return kernels.Comparison{}, err
	}
	v, err := s.outputs.Judge(s.problem.Op, dispatch, combine)
	v.Took.Running = running
	return v, err
}

func (s *groupSession) read(rank int, part string, bytes int, offsets ...int) ([][]byte, error) {
	if rank == 0 {
		return s.first.session.read(0, part, bytes, offsets...)
	}
	a, err := s.links[rank-1].exchange(task{Read: &readTask{part, bytes, offsets}})
	if err == nil && a.Reason != "" {
		err = fmt.Errorf("rank %d: %s", rank, a.Reason)
	}
	return ref.Pieces(a.Data, bytes), err
}

func (s *groupSession) Probe(rank, token, k int) ([]uint16, error) {
	return s.outputs.Probe(rank, token, k)
}

// Close does nothing if a newer session is open.
func (s *groupSession) Close() error {
	if s.opened != s {
		return nil
	}
	s.opened = nil
	_, err := s.ask(task{Close: true})
	return err
}
