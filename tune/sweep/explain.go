package sweep

import (
	"context"
	"errors"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// An Explanation says how much each resource that a config uses slows down a matrix product beside it.
type Explanation struct {
	Problem ep.Problem
	Routing string
	Config  ep.Config
	Effects []Effect
}

// An Effect is the slow-down of the matrix product under one artificial load.
type Effect struct {
	Beside   string          // the load, in words
	Alone    float64         // median seconds of the product without a load
	Slowdown record.Interval // time with the load, divided by the time without it
}

// Explain makes an Explanation for each problem and routing.
func Explain(ctx context.Context, b kernels.Backend, opts *Options, rounds int, pick Picker) (out []Explanation, err error) {
	l := newHarness(b, newPlanner(b, opts), nil)
	err = eachRoutedProblem(opts, &record.Run{}, func(s *routedProblem) error {
		cfg, _, err := pick(s.problem, s.class)
		if err == nil && cfg.IsDefault() {
			cfg, err = l.planner.defaultConfig(s.problem)
		}
		if err != nil {
			return err
		}
		e, err := l.explain(ctx, s, cfg, rounds)
		out = append(out, e)
		return err
	})
	return out, err
}

func (l *harness) explain(ctx context.Context, s *routedProblem, cfg ep.Config, rounds int) (out Explanation, err error) {
	out = Explanation{Problem: s.problem, Routing: s.routing.Spec(), Config: cfg}
	session, err := l.backend.Open(ctx, s.workload)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	e, ok := session.(kernels.Explainer)
	if !ok {
		return out, errors.New("--explain: this backend cannot separate the cost of SMs from that of memory traffic; use --backend cuda")
	}
	if err := session.Prepare(ctx, cfg); err != nil {
		return out, err
	}
	effects, err := e.Explain(ctx, cfg, rounds)
	for _, x := range effects {
		out.Effects = append(out.Effects, Effect{x.Load, stat.Median(x.Alone), stat.Slowdown(x.With, x.Alone)})
	}
	return out, err
}
