package search

import (
	"math"
	"slices"
	"time"
)

// nextInitial returns the next initial samples, or nil if there are enough. First every kernel
// gets one or two samples, required points included. Then nextInitial draws in turn from the
// competitive kernels (see competitive). Under a time limit it returns at most `chunk` points.
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

// drawInitial draws at most n points, from one kernel after the other. It draws only from kernels
// for which `wants` returns true.
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

// initialPoint returns the next initial sample of a kernel, or -1 if it found none.
func (b *bayesSearch) initialPoint(k *kernelModel) int {
	if len(k.initial) == 0 {
		return b.likeDefault(k)
	}
	return k.furthest(b.State)
}

// defaultTries is the number of random points that likeDefault compares.
const defaultTries = 200

// likeDefault draws random points of a kernel and returns the fresh point nearest to the default,
// or -1 if none was fresh. For a parameter that the default lacks, the middle of the parameter's
// values counts as the default's value. So the first samples of all kernels are alike in grid and
// block size. With random first samples, a fast kernel that was first measured on few SMs seemed
// slow and was never measured again. On recorded spaces of 2 H100, searches of 25 points lost 1.8 %
// with random first samples and 1.2 % with this rule.
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

// initialQuota returns how many initial samples the search takes in total. The share of the budget
// is smaller in a small search of several kernels, because many of the random samples have slow
// values, such as few SMs. On 24 recorded spaces of 2 H100, searches of 25 points lost 1.10 % with a
// share of 0.4, and 0.95 % with 0.34. On spaces of 2 H200 these two shares lost the same, and 0.28
// lost more.
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

// needsInitial reports whether a kernel has fewer initial samples than initialPerKernel. Failed
// samples are not counted.
func (b *bayesSearch) needsInitial(k *kernelModel) bool {
	n := 0
	for _, i := range k.initial {
		if b.Fresh(i) || !b.Failed(i) {
			n++
		}
	}
	return n < min(b.initialPerKernel(), len(k.points))
}

// initialPerKernel returns how many initial samples every kernel gets. It returns two, because a
// single slow sample would end the search of its kernel. It returns one if two samples of each
// kernel would take more than perKernelShare of the budget.
func (b *bayesSearch) initialPerKernel() int {
	if n := b.budget.Evaluations; n > 0 && float64(maxInitialPerKernel*len(b.kernels)) > perKernelShare*float64(n) {
		return 1
	}
	return maxInitialPerKernel
}

// competitive returns a function that reports whether the best initial sample of a kernel is
// within competitiveGap of the best point.
func (b *bayesSearch) competitive() func(*kernelModel) bool {
	least := b.least()
	return func(k *kernelModel) bool {
		return slices.ContainsFunc(k.initial, func(i int) bool { return b.Score(i) <= least+competitiveGap })
	}
}

// initialTries is the number of random points that furthest compares.
const initialTries = 12

// furthest returns the random fresh point with the largest distance to the nearest initial sample
// of its kernel, -1 if it found none. Distant points lie at the ends of the axes. The ends are good
// launch parameters for epbench's kernels, but not for recorded convolutions. So for every second
// sample it returns the first fresh point that it draws. A rule of random points alone lost more on
// recorded spaces of 2 H100.
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
