package search

import (
	"math"
	"slices"
	"time"
)

// nextInitial returns the next points to measure before predictions begin. It returns nil if predictions can begin.
// Every kernel gets one or two points. Then the competitive kernels take turns.
func (b *bayesSearch) nextInitial() []int {
	if b.Timed() && b.started && b.eval.Spent() > time.Duration(initialShare*float64(b.searchTime()+b.eval.Spent())) {
		return nil
	}
	b.started = true
	out := b.drawInitial(b.needsInitial, b.Left())
	if len(out) == 0 {
		out = b.drawInitial(b.competitive(), min(b.initialQuota()-b.initial, b.Left()))
	}
	b.initial += len(out)
	return out
}

// drawInitial draws at most n points in turn from the kernels for which `wants` is true.
func (b *bayesSearch) drawInitial(wants func(*kernelModel) bool, n int) (out []int) {
	if b.Timed() {
		n = min(n, chunk)
	}
	for turn := 0; len(out) < n && turn < n*len(b.kernels); turn++ {
		k := b.kernels[turn%len(b.kernels)]
		if !wants(k) {
			continue
		}
		if point := b.initialPoint(k); point >= 0 {
			k.initial = append(k.initial, point)
			out = append(out, point)
		}
	}
	return out
}

func (b *bayesSearch) initialPoint(k *kernelModel) int {
	if len(k.initial) == 0 {
		return b.likeDefault(k)
	}
	return k.furthest(b.State)
}

const defaultTries = 200

// likeDefault draws random unmeasured points of a kernel and returns the one nearest to the default, or -1. A plain
// random point may use few SMs and make a fast kernel look slow.
func (b *bayesSearch) likeDefault(k *kernelModel) int {
	to := b.shared.coordinates(b.Space, b.Default)
	like, least := -1, math.Inf(1)
	for range defaultTries {
		point := k.points[b.Rand.IntN(len(k.points))]
		if !b.Fresh(point) {
			continue
		}
		if apart := distance(b.shared.coordinates(b.Space, point), to); apart < least {
			like, least = point, apart
		}
	}
	return like
}

func (b *bayesSearch) initialQuota() int {
	n, limit, share := min(maxInitial, b.Left()+b.initial), b.budget.Evaluations, initialShare
	if len(b.kernels) > 1 && limit < fewPoints {
		share = initialShareOfMany
	}
	if limit > 0 {
		n = min(n, int(share*float64(limit)))
	}
	return n
}

func (b *bayesSearch) needsInitial(k *kernelModel) bool {
	n := 0
	for _, i := range k.initial {
		if b.Fresh(i) || !b.Failed(i) {
			n++
		}
	}
	return n < min(b.initialPerKernel(), len(k.points))
}

// initialPerKernel returns how many initial points each kernel gets. Usually there are two, because one slow point does
// not show that a kernel is slow. There is one if two points per kernel exceed perKernelShare of the budget.
func (b *bayesSearch) initialPerKernel() int {
	if n := b.budget.Evaluations; n > 0 && float64(maxInitialPerKernel*len(b.kernels)) > perKernelShare*float64(n) {
		return 1
	}
	return maxInitialPerKernel
}

// competitive returns a function that reports whether a kernel's best initial point is within competitiveGap of the
// best point.
func (b *bayesSearch) competitive() func(*kernelModel) bool {
	least := b.least()
	return func(k *kernelModel) bool {
		return slices.ContainsFunc(k.initial, func(i int) bool { return b.Score(i) <= least+competitiveGap })
	}
}

const initialTries = 12

// furthest draws random points of a kernel and returns the one farthest from the kernel's initial points, or -1. Every
// second call returns a plain random point, which is better on some recorded spaces.
func (k *kernelModel) furthest(s *State) int {
	best, most, anyFresh := -1, -1.0, len(k.initial)%2 == 1
	for range initialTries {
		point := k.points[s.Rand.IntN(len(k.points))]
		if !s.Fresh(point) || slices.Contains(s.Required, point) || slices.Contains(k.initial, point) {
			continue
		}
		if anyFresh {
			return point
		}
		nearest := math.Inf(1)
		for _, other := range k.initial {
			nearest = min(nearest, distance(k.coordinates(s.Space, point), k.coordinates(s.Space, other)))
		}
		if nearest > most {
			best, most = point, nearest
		}
	}
	return best
}

func distance(x, y []float64) float64 {
	sum := 0.0
	for a := range x {
		sum += math.Abs(x[a] - y[a])
	}
	return sum
}
