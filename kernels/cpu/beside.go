package cpu

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// beside holds the matrix products that run at the same time as calls.
type beside struct {
	products []*product
	share    int // number of pieces of a product that run beside one call
}

// outlasts sets the ratio of two times: the time of the product beside a call, and the time of the call.
const outlasts = 2

func newBeside(p ep.Problem) *beside {
	of, ok := p.Product()
	if !ok {
		return nil
	}
	b := &beside{}
	for range p.Ranks {
		b.products = append(b.products, newProduct(of))
	}
	return b
}

func (b *beside) background() (stop func()) {
	if b == nil {
		return func() {}
	}
	var ended atomic.Bool
	done := make(chan struct{})
	for _, p := range b.products {
		go func() {
			for !ended.Load() {
				p.work(1)
			}
			done <- struct{}{}
		}()
	}
	return func() {
		ended.Store(true)
		for range b.products {
			<-done
		}
	}
}

// alone runs n pieces of each product without calls, and returns the seconds of each rank.
func (b *beside) alone(n int) []float64 {
	start := make(chan struct{})
	wait := startProducts(b.products, start, n, make([]atomic.Int64, len(b.products)))
	begin := time.Now()
	close(start)
	out := make([]float64, len(b.products))
	for r, end := range wait() {
		out[r] = end.Sub(begin).Seconds()
	}
	return out
}

const trialPieces = 32

// size computes beside.share in its first call.
func (s *Session) size(ctx context.Context) error {
	b := s.beside
	if b.share > 0 {
		return nil
	}
	c, err := kernels.Default(Kernels(), s.backend.machine, s.Problem, 0)
	if err != nil {
		return err
	}
	program, err := s.program(ctx, c)
	if err != nil {
		return err
	}
	j, err := s.start(ctx, program, kernels.RunSpec{Rounds: 1, Fold: 1}, noFault)
	if err != nil {
		return err
	}
	piece := slices.Max(b.alone(trialPieces)) / trialPieces
	b.share = max(2, int(math.Ceil(outlasts*slices.Max(j.seconds()[0])/piece)))
	return nil
}

// runBeside times the calls alone, the product alone, and both together, in each round.
func (s *Session) runBeside(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	if err := s.size(ctx); err != nil {
		return kernels.Rounds{}, err
	}
	program, err := s.program(ctx, c)
	if err != nil {
		return kernels.Rounds{}, err
	}
	b, t, f := s.beside, &ep.BesideRounds{}, s.backend.faulty(c)
	once := kernels.RunSpec{Rounds: 1, Fold: spec.Fold}
	for range spec.Rounds {
		j, err := s.start(ctx, program, once, f)
		if err != nil {
			return kernels.Rounds{}, err
		}
		call := j.seconds()[0]
		product := perCall(b.alone(spec.Fold*b.share), spec.Fold)
		round, err := s.together(ctx, c, program, once, f)
		if err != nil {
			return kernels.Rounds{}, err
		}
		round.Call, round.Product = [][]float64{call}, [][]float64{product}
		t.Append(round)
	}
	t.Amount = b.products[0].amount(b.share)
	return kernels.Rounds{Clock: "wall", Fold: spec.Fold, Seconds: t.Seconds(s.Objective), Beside: t}, nil
}

func perCall(seconds []float64, fold int) []float64 {
	for i := range seconds {
		seconds[i] /= float64(fold)
	}
	return seconds
}

func (s *Session) together(ctx context.Context, c ep.Config, program []stage, spec kernels.RunSpec, f fault) (*ep.BesideRounds, error) {
	if s.splitPhases(c) {
		return s.inPhases(ctx, program, spec, f)
	}
	return s.concurrent(ctx, program, spec, f)
}

func (s *Session) splitPhases(c ep.Config) bool {
	d, k, err := s.halves(c)
	return err == nil && (d == nil || d.split) && (k == nil || k.split)
}

func (s *Session) concurrent(ctx context.Context, program []stage, spec kernels.RunSpec, f fault) (*ep.BesideRounds, error) {
	n, begun := spec.Fold*s.beside.share, make(chan struct{})
	done := make([]atomic.Int64, s.Ranks)
	wait := startProducts(s.beside.products, begun, n, done)
	var at []int64
	j, err := s.startWith(ctx, program, spec, f, func(j *job) { j.begun = begun }, func() {
		for r := range done {
			at = append(at, done[r].Load())
		}
	})
	ends := wait()
	if err != nil {
		return nil, err
	}
	t := &ep.BesideRounds{Both: [][]float64{nil}, CallIn: [][]float64{j.seconds()[0]}, ProductIn: [][]float64{nil}, Done: [][]float64{nil}}
	for r, end := range ends {
		in := end.Sub(j.starts[0]).Seconds() / float64(spec.Fold)
		t.ProductIn[0] = append(t.ProductIn[0], in)
		t.Both[0] = append(t.Both[0], max(in, t.CallIn[0][r]))
		t.Done[0] = append(t.Done[0], float64(at[r])/float64(n))
	}
	return t, nil
}

// inPhases runs the product between sending and receiving.
func (s *Session) inPhases(ctx context.Context, program []stage, spec kernels.RunSpec, f fault) (*ep.BesideRounds, error) {
	pairs := len(program) / 2
	var with []stage
	for i, st := range program {
		with = append(with, st)
		if i%2 == 0 {
			with = append(with, stage{launch{blocks: 1}, s.beside.stage(s.beside.share*(i/2+1)/pairs - s.beside.share*(i/2)/pairs)})
		}
	}
	for _, p := range s.beside.products {
		p.elapsed = 0
	}
	j, err := s.start(ctx, with, spec, f)
	if err != nil {
		return nil, err
	}
	t := &ep.BesideRounds{Both: [][]float64{j.seconds()[0]}, CallIn: [][]float64{nil}, ProductIn: [][]float64{nil}, Done: [][]float64{nil}}
	for r, p := range s.beside.products {
		in := p.elapsed.Seconds() / float64(spec.Fold)
		t.ProductIn[0] = append(t.ProductIn[0], in)
		t.CallIn[0] = append(t.CallIn[0], max(0, t.Both[0][r]-in))
		t.Done[0] = append(t.Done[0], 1)
	}
	return t, nil
}

func (b *beside) stage(n int) func(*worker, launch, int) bool {
	return func(w *worker, _ launch, _ int) bool {
		p, start := b.products[w.r.id], time.Now()
		p.work(n)
		p.elapsed += time.Since(start)
		return true
	}
}
