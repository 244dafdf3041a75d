package measure

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// fake is a backend and its own session. Every config takes the same time.
type fake struct {
	kernels.Backend
	seconds float64
	sigma   float64 // relative noise
	onOpen  func() error
	onRun   func(ep.Config) error
	wrong   func(ep.Config) int // wrong rows of 16
	opened  int                 // sessions
	folds   map[string][]int    // by config
	rng     *rand.Rand
}

func (f *fake) Machine() ep.Machine { return ep.Machine{Backend: "fake", SMs: 64, GPUs: 4} }

func (f *fake) Open(ctx context.Context, _ *workloads.Workload) (kernels.Session, error) {
	f.opened++
	f.rng = rand.New(rand.NewPCG(1, 2))
	if f.onOpen != nil {
		return f, f.onOpen()
	}
	return f, ctx.Err()
}

func (f *fake) Close() error                             { return nil }
func (f *fake) Prepare(context.Context, ep.Config) error { return nil }

func (f *fake) Verify(_ context.Context, c ep.Config) (kernels.Comparison, error) {
	v := kernels.Comparison{Rows: 16, Took: ep.CheckTime{Reading: 1}}
	if f.wrong != nil {
		v.Wrong = f.wrong(c)
	}
	return v, nil
}

// Run returns rounds in which rank 1 is the slowest.
func (f *fake) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	out := kernels.Rounds{Clock: "wall", Fold: spec.Fold, Took: ep.RunTime{Rounds: 1}}
	if f.folds == nil {
		f.folds = map[string][]int{}
	}
	f.folds[c.Key()] = append(f.folds[c.Key()], spec.Fold)
	for range spec.Rounds {
		t := f.seconds
		if t == 0 {
			t = 1e-5
		}
		t *= math.Exp(f.sigma * f.rng.NormFloat64())
		out.Seconds = append(out.Seconds, []float64{0.9 * t, t, 0.9 * t, 0.9 * t})
		if f.onRun != nil {
			if err := f.onRun(c); err != nil {
				return out, err
			}
		}
	}
	return out, ctx.Err()
}
