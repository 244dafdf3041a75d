//go:build cuda

package drive

import (
	"context"
	"errors"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// readyProduct sizes the product and chooses its plan, once in each session.
func (s *session) readyProduct(ctx context.Context) error {
	if err := s.sizeProduct(ctx); err != nil {
		return err
	}
	for _, b := range []*products{s.beside, s.beside.attention} {
		if b == nil || b.chosen || b.of.Kind == ep.Copy {
			continue
		}
		if err := s.choosePlan(ctx, b, takenSMs); err != nil {
			return err
		}
	}
	return nil
}

// choosePlan measures the product alone with several plans, and keeps the fastest plan. The cost of calls
// is the time of calls and product together, minus the time of the product alone. With a slower plan, this cost would
// seem too small.
func (s *session) choosePlan(ctx context.Context, b *products, taken []int) error {
	all := s.ranks.local[0].gpu.sms
	plans, times := []int{0}, []float64{}
	for _, n := range taken {
		if 2*n > all {
			continue
		}
		var refused *kernels.Failure
		switch err := b.planFor(all - n); {
		case err == nil:
			plans = append(plans, all-n)
		case !errors.As(err, &refused) || refused.Status != ep.LaunchFailed:
			return asFailure(ep.LaunchFailed, err)
		}
	}
	if len(plans) == 1 { // a small GPU
		b.chosen = true
		return nil
	}
	b.own = 0 // so that planBeside returns the plan that the loop asks for
	for _, sms := range plans {
		alone, err := s.timePasses(ctx, b, sms)
		if err != nil {
			return err
		}
		times = append(times, slices.Min(slowestOf(alone)))
	}
	b.own, b.chosen = plans[fastestPlan(times)], true
	return nil
}
