//go:build cuda

package drive

import (
	"context"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

// clockStamp names the clock of rounds in which a matrix product ("the product") runs beside the calls.
const clockStamp = "stamp"

// outlasts sets the least ratio of two times: the time of the product beside a call, and the time of the call.
const outlasts = 2

func (s *session) besideLaunches() int {
	if s.beside == nil {
		return 0
	}
	return max(s.beside.share, 1)
}

func (s *session) arrange(k *candidate) arrangement {
	a := arrangement{way: overlapped, share: s.beside.share, left: s.smsLeft(k)}
	switch {
	case s.beside.isStep() && k.phased():
		a.way = stepPhases
	case s.beside.isStep():
		a.way = stepOverlapped
	case k.phased():
		a.way = inPhases
	}
	if k.phased() {
		a.left = 0
	}
	return a
}

// smsLeft returns the number of SMs for which the product is planned beside a candidate's calls. It returns 0, which
// means all SMs, if the product is a copy or if the calls use more than half of the SMs.
func (s *session) smsLeft(k *candidate) int {
	all, taken := s.ranks.local[0].gpu.sms, k.sms()
	if s.beside.of.Kind == ep.Copy || 2*taken > all {
		return 0
	}
	return all - taken
}

func (c *candidate) sms() (most int) {
	for op, k := range c.calls {
		if op == c.op || c.op == ep.Pair {
			for _, l := range k.launches {
				most = max(most, l.Grid)
			}
		}
	}
	return most
}

// runBeside measures the calls alone, the product alone, and both at the same time.
func (s *session) runBeside(ctx context.Context, k *candidate, spec kernels.RunSpec) (kernels.Rounds, error) {
	if err := s.readyProduct(ctx); err != nil {
		return kernels.Rounds{}, err
	}
	a := s.arrange(k)
	for _, b := range []*products{s.beside, s.beside.attention} {
		if b == nil {
			continue
		}
		if err := b.planFor(planBeside(b.own, a.left)); err != nil {
			return kernels.Rounds{}, asFailure(ep.LaunchFailed, err)
		}
	}
	p, err := s.program(k, a, spec.Fold)
	if err != nil {
		return kernels.Rounds{}, asFailure(ep.LaunchFailed, err)
	}
	t, err := s.readTogether(ctx, p, spec.Rounds)
	if err != nil {
		return kernels.Rounds{}, err
	}
	mhz, notes := s.backend.monitor.read(s.ranks)
	return kernels.Rounds{Clock: clockStamp, Fold: spec.Fold, Seconds: t.Seconds(s.problem.Objective), MHz: mhz, Notes: notes, Beside: t}, nil
}

// readTogether runs a program and returns its readings.
func (s *session) readTogether(ctx context.Context, p *program, rounds int) (*ep.BesideRounds, error) {
	t := &ep.BesideRounds{Amount: s.beside.amount()}
	if left := p.timing.beside.left; left > 0 {
		t.Amount += fmt.Sprintf(", planned for at most %d SMs beside the calls", left)
	}
	for _, rows := range []*[][]float64{&t.Call, &t.Product, &t.Both, &t.CallIn, &t.ProductIn, &t.Done} {
		*rows = make([][]float64, rounds)
	}
	err := s.attempt(p, func() error {
		return p.readings(ctx, rounds, func(round, rank int, raw []uint64) error {
			if rank == 0 { // a repeated run replaces the readings
				for _, rows := range []*[][]float64{&t.Call, &t.Product, &t.Both, &t.CallIn, &t.ProductIn, &t.Done} {
					(*rows)[round] = nil
				}
			}
			x, err := p.times(raw)
			t.Call[round], t.Product[round] = append(t.Call[round], x.call), append(t.Product[round], x.product)
			t.Both[round], t.Done[round] = append(t.Both[round], x.both), append(t.Done[round], x.done)
			t.CallIn[round], t.ProductIn[round] = append(t.CallIn[round], x.callIn), append(t.ProductIn[round], x.productIn)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	p.long = true // the GPU is warm, so one warm-up round is enough
	return t, nil
}

const sizingRounds = 5

// sizeProduct decides how many launches of the product belong to one call. It times the call of the default config, so
// that the number does not depend on the session's first config.
func (s *session) sizeProduct(ctx context.Context) error {
	b := s.beside
	if b.share > 0 {
		return nil
	}
	p, err := s.defaultProgram(ctx)
	if err != nil {
		return err
	}
	var call [][]float64
	if err := s.attempt(p, func() (err error) { call, err = p.measure(ctx, sizingRounds); return err }); err != nil {
		return err
	}
	pass, err := s.pass(ctx)
	if err != nil {
		return err
	}
	want := outlasts * kernels.Rounds{Seconds: call}.MedianOfSlowest()
	if err := checkHeld(b.of, max(pass, want), s.ranks.deadline); err != nil {
		return asFailure(ep.LaunchFailed, err)
	}
	least := 1
	if s.problem.Op == ep.Pair {
		least = 2
	}
	batch, share := shareOf(want/pass, max(b.of.Groups, 1), b.launchesPerPass(), least)
	if b.of.Kind != ep.Copy && batch != b.batch {
		if err := b.plan(batch); err != nil {
			return asFailure(ep.LaunchFailed, err)
		}
	}
	b.share = share
	return nil
}

func (s *session) defaultProgram(ctx context.Context) (*program, error) {
	c, err := kernels.Default(declare.AllKernels(), s.backend.machine, s.problem, 0)
	if err != nil {
		return nil, asFailure(ep.Illegal, err)
	}
	if err := s.Prepare(ctx, c); err != nil {
		return nil, err
	}
	k, err := s.prepared(c)
	if err != nil {
		return nil, err
	}
	p, err := s.program(k, arrangement{}, 1)
	if err != nil {
		return nil, asFailure(ep.LaunchFailed, err)
	}
	return p, nil
}

func (s *session) pass(ctx context.Context) (float64, error) {
	alone, err := s.timePasses(ctx, s.beside, 0)
	if err != nil {
		return 0, err
	}
	return kernels.Rounds{Seconds: alone}.MedianOfSlowest(), nil
}

// timePasses measures passes of the product with a plan for `sms` SMs. It returns seconds as [round][rank].
func (s *session) timePasses(ctx context.Context, b *products, sms int) ([][]float64, error) {
	a := arrangement{way: onlyProduct, share: b.launchesPerPass(), left: sms}
	t := timing{op: empty, mode: s.problem.Mode, clock: clockChain, fold: 1, beside: a}
	alone, _, err := s.besideRounds(ctx, t, extras{problem: s.problem, beside: b}, sizingRounds)
	return alone, err
}

// besideRounds measures the product twice in each round: alone, and while the synthetic load x.load runs. It returns
// seconds as [round][rank].
func (s *session) besideRounds(ctx context.Context, t timing, x extras, rounds int) (alone, within [][]float64, err error) {
	p, err := newProgram(s.ranks, newSchedule(t), nil, s.ranks.args, x)
	if err != nil {
		return nil, nil, asFailure(ep.LaunchFailed, err)
	}
	defer p.free()
	alone, within = make([][]float64, rounds), make([][]float64, rounds)
	err = s.attempt(p, func() error {
		return p.readings(ctx, rounds, func(round, rank int, raw []uint64) error {
			x, err := p.times(raw)
			if rank == 0 { // a repeated run replaces the readings
				alone[round], within[round] = nil, nil
			}
			alone[round], within[round] = append(alone[round], x.product), append(within[round], x.productIn)
			return err
		})
	})
	return alone, within, err
}

func runOnce(c *cSteps) error {
	_, err := c.run(context.Background(), batch{rounds: 1, window: 1, limit: int64(time.Minute)})
	return err
}
