//go:build cuda

package drive

import (
	"context"
	"errors"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// readyProduct decides, once in each session, how many launches of the matrix product run beside one call.
// It also chooses the plan for calls that leave the product all SMs.
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

// choosePlan times the product alone with several plans: one for all SMs, and one for all SMs less each
// number in `taken`. The fastest plan becomes the product's own plan. The plan for all SMs need not be the
// fastest: 60 experts of Qwen3-30B took 62 us with it, and 57 us with the plan for 100 SMs. If the slower
// plan were the reference, calls beside the faster plan would seem to cost nothing.
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
		case !errors.As(err, &refused) || refused.Status != ep.LaunchFailed: // a plan that the library refuses is left out
			return asFailure(ep.LaunchFailed, err)
		}
	}
	if len(plans) == 1 { // a small GPU
		b.chosen = true
		return nil
	}
	b.own = 0 // plans for more SMs than the own plan would not be launched
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
