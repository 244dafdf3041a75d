//go:build cuda

package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// warmups is the number of first rounds that are not reported. They fill instruction caches and TLBs.
const warmups = 2

// longCall is a time in seconds. For calls that take longer, one warm-up round is enough.
const longCall = 500e-6

func (s *session) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	k, err := s.prepared(c)
	if err != nil {
		return kernels.Rounds{}, err
	}
	fold := max(spec.Fold, 1)
	if fold > maxFold || spec.Rounds < 1 {
		return kernels.Rounds{}, fmt.Errorf("run: %d rounds of fold %d; use at least 1 round and a fold of 1 to %d", spec.Rounds, fold, maxFold)
	}
	s.outputs.Forget()
	if s.beside != nil {
		return s.runBeside(ctx, k, kernels.RunSpec{Rounds: spec.Rounds, Fold: fold})
	}
	p, err := s.program(k, arrangement{}, fold)
	if err != nil {
		return kernels.Rounds{}, asFailure(ep.LaunchFailed, err)
	}
	p.took = ep.RunTime{}
	var seconds [][]float64
	err = s.attempt(p, func() (err error) {
		seconds, err = p.measure(ctx, spec.Rounds)
		return err
	})
	if err != nil {
		return kernels.Rounds{}, err
	}
	stop := spent(&p.took.Clocks)
	mhz, notes := s.backend.monitor.read(s.ranks)
	stop()
	if s.again > 0 {
		notes = append(notes, beganAgain(s.again, s.ranks.deadline))
		s.again = 0
	}
	return kernels.Rounds{Clock: s.backend.options.Clock, Fold: fold, Seconds: seconds, MHz: mhz, Notes: notes, Took: p.took}, nil
}

func beganAgain(runs int, deadline time.Duration) string {
	return fmt.Sprintf("%d runs were repeated: a rank's work did not reach its GPU within %v", runs, deadline)
}

// attempt runs a program and turns its error into a Failure. If ranks gave up only while they waited for each other
// before a call, no call hung: the work of a rank reached its GPU too late. Then attempt resets the ranks' memory and
// repeats the run once.
func (s *session) attempt(p *program, run func() error) error {
	s.setRunning(p)
	defer s.setRunning(nil)
	err := run()
	if errors.Is(err, errFault) && s.ranks.world == nil && neverBegan(s.ranks.faults()) {
		if err := s.ranks.reset(); err != nil {
			return err
		}
		s.again++
		err = run()
	}
	return s.ended(err)
}

func (s *session) program(k *candidate, beside arrangement, fold int) (*program, error) {
	t := timing{op: s.problem.Op, mode: s.problem.Mode, clock: s.backend.clock, fold: fold, beside: beside}
	if p := k.programs[t]; p != nil {
		return p, nil
	}
	p, err := newProgram(s.ranks, newSchedule(t), k.calls, s.args(k), s.extrasFor(k))
	if err != nil {
		return nil, err
	}
	s.makeRoom()
	k.programs[t] = p
	return p, nil
}

// keptPrograms is the largest number of programs. Their graphs take memory on every GPU.
const keptPrograms = 256

// makeRoom frees all programs if there are too many. To free only the oldest would not help, because a search that runs
// all programs in turn needs the oldest next.
func (s *session) makeRoom() {
	n := 0
	for _, c := range s.candidates {
		n += len(c.programs)
	}
	if n < keptPrograms {
		return
	}
	for _, c := range s.candidates {
		c.drop()
	}
}

// measure returns the seconds of one call, [round][rank].
func (p *program) measure(ctx context.Context, rounds int) ([][]float64, error) {
	out := make([][]float64, rounds)
	err := p.readings(ctx, rounds, func(round, rank int, raw []uint64) error {
		seconds, err := p.seconds(raw)
		out[round] = append(out[round], seconds)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.long = kernels.Rounds{Seconds: out}.MedianOfSlowest() > longCall
	return out, nil
}

// readings runs rounds and passes each rank's readings to `take`.
func (p *program) readings(ctx context.Context, rounds int, take func(round, rank int, raw []uint64) error) error {
	if p.mode != ep.Eager && p.native.ranks[0].exec == 0 {
		stop := spent(&p.took.Graphs)
		err := p.native.capture()
		stop()
		if err != nil {
			return &refusal{err.Error()}
		}
	}
	warm := warmups
	if p.long {
		warm = 1
	}
	total := rounds + warm
	words := p.words()
	stop := spent(&p.took.Rounds)
	raw, err := p.run(ctx, total, words)
	stop()
	if err != nil {
		return err
	}
	for i := range rounds {
		for rank := range p.ranks.local {
			at := (rank*total + warm + i) * words
			if err := take(i, rank, raw[at:at+words]); err != nil {
				return &refusal{fmt.Sprintf("rank %d, round %d: %v", rank, i, err)}
			}
		}
	}
	return nil
}

// slack is added to the ranks' deadlines. Rounds that take longer than this sum count as stuck.
const slack = 5 * time.Second

// run returns raw readings, [rank][round][word].
func (p *program) run(ctx context.Context, rounds, words int) ([]uint64, error) {
	limit := slack + time.Duration(1+len(p.ranks.local))*p.ranks.deadline
	return p.native.run(ctx, batch{rounds: rounds, window: p.window(), words: words, limit: limit.Nanoseconds()})
}
