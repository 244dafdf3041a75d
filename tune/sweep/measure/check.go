package measure

import (
	"context"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// admit prepares and checks candidates, and warms them up, once per session. The warm-up makes as many calls as a
// sample, because a backend makes a separate graph for each number of calls.
func (r *Runner) admit(ctx context.Context, live []int, lines []record.Result) error {
	isTwin := func(point int) bool { return point == search.Twin }
	first, err := r.checkCold(ctx, live, lines, func(point int) bool { return !isTwin(point) })
	if err != nil {
		return err
	}
	twin, err := r.checkCold(ctx, live, lines, func(point int) bool { return isTwin(point) && (r.twin != nil || !r.ready[r.Default]) })
	if err != nil {
		return err
	}
	err = r.runAll(ctx, append(first, twin...), func(_ *record.Result, got kernels.Rounds) error {
		r.Wall.Run = r.Wall.Run.Plus(got.Took)
		return nil
	})
	r.requireCheckAgain(live, lines)
	return err
}

func (r *Runner) checkCold(ctx context.Context, live []int, lines []record.Result, wanted func(point int) bool) (right []*record.Result, err error) {
	var cold []*record.Result
	var points []int
	for i, point := range live {
		if wanted(point) && !r.ready[point] {
			cold, points = append(cold, &lines[i]), append(points, point)
		}
	}
	if err := r.check(ctx, cold); err != nil {
		return nil, err
	}
	for i, line := range cold {
		if line.Status == ep.OK {
			r.ready[points[i]] = true
			right = append(right, line)
		}
	}
	return right, nil
}

// check compares the candidates' outputs with the oracle. The host compares one output while the next candidate runs.
func (r *Runner) check(ctx context.Context, lines []*record.Result) error {
	rests := make([]<-chan kernels.Comparison, len(lines))
	for i, line := range lines {
		rest, err := r.verify(ctx, line)
		if err := attributeFailure(err, line); err != nil {
			return err
		}
		rests[i] = rest
	}
	defer stopwatch(&r.Wall.Checking)()
	for i, line := range lines {
		if rests[i] == nil {
			continue
		}
		v := <-rests[i]
		r.Wall.Check = r.Wall.Check.Plus(v.Took)
		line.Checked, line.MaxErr = v.Rows, v.MaxErr
		if !v.OK() {
			_ = attributeFailure(kernels.Failf(ep.Mismatch, "%d of %d rows are wrong: %s", v.Wrong, v.Rows, v.Detail), line)
		}
	}
	return nil
}

// verify starts the comparison of a line's candidate. The channel delivers the result.
func (r *Runner) verify(ctx context.Context, line *record.Result) (<-chan kernels.Comparison, error) {
	if err := r.prepare(ctx, line); err != nil {
		return nil, err
	}
	defer stopwatch(&r.Wall.Checking)()
	rest, err := kernels.StartVerify(ctx, r.sessionOf(line), line.Config)
	if err != nil {
		return nil, err
	}
	done := make(chan kernels.Comparison, 1)
	go func() { done <- rest() }()
	return done, nil
}

func (r *Runner) verifyBlock(ctx context.Context, stage record.Stage, block int, points []int) ([]record.Result, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	lines := make([]record.Result, len(points))
	all := make([]*record.Result, len(points))
	for i, point := range points {
		lines[i] = r.line(stage, block, point)
		all[i] = &lines[i]
	}
	return lines, r.check(ctx, all)
}
