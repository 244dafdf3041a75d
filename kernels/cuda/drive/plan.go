//go:build cuda

package drive

import (
	"context"
	"errors"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// readyProduct decides, once a session, what share of the product belongs to a call and
// how the product is planned where no call leaves it fewer SMs.
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

// choosePlan times the product alone as planned for all SMs and for those that some calls
// leave, and takes the fastest plan for its own. The library's plan for all SMs is not
// always that: 60 experts of Qwen3-30B took 62 us by it and 57 us as planned for 100 SMs
// with calls beside them. Less that reading alone, such calls cost nothing.
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
		case !errors.As(err, &refused) || refused.Status != ep.NoLaunch: // what the library refuses is no choice
			return asFailure(ep.NoLaunch, err)
		}
	}
	if len(plans) == 1 { // a small GPU
		b.chosen = true
		return nil
	}
	b.own = 0 // or a plan for more SMs would not be launched
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
