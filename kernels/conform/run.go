package conform

import (
	"context"
	"errors"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

const casesAhead = 12

// Run runs the cases in order and passes every result to `each`.
func Run(ctx context.Context, b kernels.Backend, cases []Case, each func(Result)) error {
	told := 0
	for i, c := range cases {
		for ; told < min(i+casesAhead, len(cases)); told++ {
			precompile(b, cases[told])
		}
		r, err := RunCase(ctx, b, c)
		if err != nil {
			return err
		}
		each(r)
	}
	return nil
}

func precompile(b kernels.Backend, c Case) {
	if f, ok := b.(kernels.Precompiler); ok {
		f.Precompile(c.Problem, configs(b, c))
	}
}

// RunCase runs the candidates of a case. It returns an error only if the context ends or the session is lost.
func RunCase(ctx context.Context, b kernels.Backend, c Case) (Result, error) {
	res := Result{Case: c}
	m := b.Machine()
	all := kernels.For(b.Kernels(), c.Problem)
	if len(all) == 0 {
		res.Skipped = kernels.NoKernel(b.Kernels(), c.Problem).Error()
		return res, nil
	}
	if err := all[0].Check(m, c.Problem, all[0].DefaultConfig(m, c.Problem)); err != nil {
		res.Skipped = err.Error()
		return res, nil
	}
	w, err := c.Workload()
	if err != nil {
		return res, err
	}
	s, err := b.Open(ctx, w)
	if err != nil {
		return res, fmt.Errorf("open %s: %w", c.Name, err)
	}
	for _, cfg := range configs(b, c) {
		o, err := runConfig(ctx, s, c, cfg)
		if err != nil {
			return res, errors.Join(fmt.Errorf("%s, %s: %w", c.Name, cfg.Key(), err), s.Close())
		}
		res.Trials = append(res.Trials, o)
	}
	return res, s.Close()
}

func configs(b kernels.Backend, c Case) []ep.Config {
	var out []ep.Config
	for _, k := range kernels.For(b.Kernels(), c.Problem) {
		out = append(out, candidates(k, b.Machine(), c)...)
	}
	return out
}

// runConfig verifies a config before and after many calls.
func runConfig(ctx context.Context, s kernels.Session, c Case, cfg ep.Config) (Trial, error) {
	o := Trial{Config: cfg, Status: ep.OK}
	for _, step := range []func() error{
		func() error { return s.Prepare(ctx, cfg) },
		func() error { return o.verify(ctx, s) },
		func() error { return iterate(ctx, s, c, cfg) },
		func() error { return o.verify(ctx, s) },
		func() error { return repeats(ctx, s, c, cfg) },
	} {
		err := step()
		var f *kernels.Failure
		if errors.As(err, &f) {
			o.Status, o.Reason = f.Status, f.Reason
			return o, nil
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *Trial) verify(ctx context.Context, s kernels.Session) error {
	v, err := s.Verify(ctx, o.Config)
	if err != nil {
		return err
	}
	o.Compared.Rows += v.Rows
	o.Compared.Wrong += v.Wrong
	o.Compared.MaxErr = max(o.Compared.MaxErr, v.MaxErr)
	if !v.OK() {
		o.Compared.Detail = v.Detail
		return kernels.Failf(ep.Mismatch, "%s", v.Detail)
	}
	return nil
}

func iterate(ctx context.Context, s kernels.Session, c Case, cfg ep.Config) error {
	const rounds = 5
	spec := kernels.RunSpec{Rounds: rounds, Fold: max(c.Iterations/rounds, 1)}
	got, err := s.Run(ctx, cfg, spec)
	if err != nil {
		return err
	}
	if why := got.Implausible(spec, c.Problem.Ranks, c.Problem.Tokens == 0); why != "" {
		return kernels.Failf(ep.Unstable, "%s", why)
	}
	return nil
}

func repeats(ctx context.Context, s kernels.Session, c Case, cfg ep.Config) error {
	d, ok := s.(kernels.Digester)
	if !ok || c.Problem.Op == ep.Dispatch {
		return nil
	}
	first, err := d.Digest(ctx, cfg)
	if err != nil {
		return err
	}
	second, err := d.Digest(ctx, cfg)
	if err == nil && first != second {
		err = kernels.Failf(ep.Mismatch, "%s gave different bits in two runs: %.12s and %.12s", c.Problem.Op, first, second)
	}
	return err
}
