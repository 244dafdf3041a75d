package sweep

import (
	"context"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// Contest is two configs to be measured side by side.
type Contest struct{ A, B ep.Config }

// AB times both configs of a problem's contest, and A against itself, on every
// problem and routing. Each round has all three in an order that is random and
// balanced. In the log A has the role of the default.
func AB(ctx context.Context, b kernels.Backend, opts *Options, job Job, of func(ep.Problem) Contest) error {
	l := newLab(b, newPlanner(b, opts), job.Log)
	return eachSubject(opts, job.Run, func(s *subject) (err error) {
		x := of(s.problem)
		c, err := l.contest(s, "ab", x.A, x.B)
		if err != nil {
			return err
		}
		defer func() { err = c.close(err) }()
		if _, err := c.runner.Measure(ctx, record.StageAB, append(c.points, search.Twin), job.Rounds); err != nil {
			return err
		}
		_, err = c.runner.Recheck(ctx, record.StageRecheck, c.points)
		return err
	})
}
