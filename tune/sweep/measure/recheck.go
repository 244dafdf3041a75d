package measure

import (
	"context"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Recheck compares points with the oracle once more, after they were timed,
// and reports which are still right. Like every block it is in the log.
func (r *Runner) Recheck(ctx context.Context, stage record.Stage, points []int) (right map[int]bool, err error) {
	lines, err := r.next(ctx, stage, points, func(block int) ([]record.Result, error) { return r.verifyBlock(ctx, stage, block, points) })
	if err != nil {
		return nil, err
	}
	r.samples(points, lines)
	right = map[int]bool{}
	for i, point := range points {
		right[point] = lines[i].Status == ep.OK
	}
	return right, nil
}

func (r *Runner) verifyBlock(ctx context.Context, stage record.Stage, block int, points []int) ([]record.Result, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	lines := make([]record.Result, len(points))
	for i, point := range points {
		lines[i] = r.line(stage, block, point)
		if err := blame(r.check(ctx, &lines[i]), &lines[i]); err != nil {
			return nil, err
		}
	}
	return lines, nil
}
