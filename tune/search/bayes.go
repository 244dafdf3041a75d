package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// bayes measures initial points of every kernel, then the points with the largest expected improvement.
func bayes(ctx context.Context, s *State) error {
	return runBayes(ctx, s, func() bool { return false })
}

// auto runs race if the budget allows every point, else bayes. Under a time limit it decides again after every batch.
func auto(ctx context.Context, s *State) error {
	if !s.Timed() && s.Left() >= s.freshLeft() {
		return race(ctx, s)
	}
	return runBayes(ctx, s, s.spaceFits)
}

// runBayes runs the strategy bayes. It changes to the strategy race once `whole` returns true.
func runBayes(ctx context.Context, s *State, whole func() bool) error {
	b := newBayesSearch(s)
	next := append(slices.Clone(s.Required), b.nextInitial()...)
	for stage := record.StageScreen; len(next) > 0; stage = record.StageModel {
		if err := s.Measure(ctx, stage, next, s.screenRounds()); err != nil {
			return err
		}
		if whole() {
			return race(ctx, s)
		}
		if next = b.nextInitial(); len(next) == 0 {
			next = b.next(min(b.batch(), s.Left()))
		}
		if len(next) > 0 {
			best := s.Ranked(s.Measured())
			next = append(next, best[:min(1, len(best))]...)
		}
	}
	return nil
}

const (
	batchSize           = 4    // points measured in the same rounds
	smallBatch          = 2    // used instead of batchSize until fewPoints points were measured
	fewPoints           = 50   // see smallBatch, initialShareOfMany and sharedSurrogate
	maxInitial          = 48   // largest result of initialQuota
	initialShare        = 0.4  // share of the budget for initial points
	initialShareOfMany  = 0.34 // used instead of initialShare if there are several kernels and a budget below fewPoints
	maxInitialPerKernel = 2
	perKernelShare      = 0.25 // see initialPerKernel
	competitiveGap      = 0.7  // see competitive
	maxPredicted        = 4000 // predicted points of a kernel in a batch
	fastestNeighbours   = 3    // points whose neighbours are predicted in every batch
	neglectedEvery      = 2    // see next
	neglectedGap        = 0.1  // see neglected
	maxScored           = 160  // points of a kernel that get an expected improvement
)

type bayesSearch struct {
	*State
	kernels []*kernelModel
	shared  *sharedSurrogate
	initial int // number of initial and required points
	batches int // calls of next
	started bool
}

type kernelModel struct {
	kernel    string
	axes      []Axis
	points    []int
	initial   []int // initial and required points
	surrogate *surrogate
	coords    map[int][]float64
	batches   int // calls of the method options
}

func newBayesSearch(s *State) *bayesSearch {
	b := &bayesSearch{State: s}
	byKernel := map[string]*kernelModel{}
	for i := range s.Space.Len() {
		c := s.Space.Config(i)
		kernel := s.Space.Design(c)
		k := byKernel[kernel]
		if k == nil {
			axes := s.Space.axes(c.Kernel)
			var values []int
			for _, a := range axes {
				values = append(values, len(a.Values))
			}
			k = &kernelModel{kernel: kernel, axes: axes, surrogate: newSurrogate(values, s.priors), coords: map[int][]float64{}}
			byKernel[kernel] = k
			b.kernels = append(b.kernels, k)
		}
		k.points = append(k.points, i)
		if slices.Contains(s.Required, i) {
			k.initial = append(k.initial, i)
		}
	}
	b.initial = len(s.Required)
	b.shared = newSharedSurrogate(s.Space, b.kernels, s.priors)
	return b
}

// coordinates returns a point's coordinates. If an axis has n values, the value with index i lies at i/sqrt(n-1).
func (k *kernelModel) coordinates(s *Space, point int) []float64 {
	if x, ok := k.coords[point]; ok {
		return x
	}
	c := s.Config(point)
	x := make([]float64, len(k.axes))
	for a, axis := range k.axes {
		if n := len(axis.Values); n > 1 {
			x[a] = float64(slices.Index(axis.Values, c.Values[axis.Name])) / float64(n-1) * math.Sqrt(float64(n-1))
		}
	}
	k.coords[point] = x
	return x
}

// option is an unmeasured point with its prediction.
type option struct {
	point       int
	surrogate   *surrogate
	x           []float64
	mean        float64 // predicted score, see warp
	improvement float64 // expected improvement of the score, see warp
}

func (b *bayesSearch) least() float64 {
	least := math.Inf(1)
	for _, i := range b.points {
		least = min(least, b.Score(i))
	}
	return least
}

// batch returns how many points to measure before the next choice.
func (b *bayesSearch) batch() int {
	if !b.Timed() && b.Tried() < fewPoints {
		return smallBatch
	}
	return batchSize
}

// next returns up to n points to measure: those with the largest expected improvement, and one of a neglected kernel.
func (b *bayesSearch) next(n int) []int {
	b.batches++
	least := b.least()
	expected := priorOf(b.warped(b.Ranked(b.Measured()), least))
	var all []option
	early := b.Tried() < fewPoints
	if early {
		b.shared.update(b.State, expected, least)
	}
	for _, k := range b.kernels {
		own := k.options(b.State, expected, least)
		if early {
			own = b.shared.mix(b.State, k, own)
		}
		all = append(all, own...)
	}
	var out []int
	for len(out) < n && len(all) > 0 {
		top := mostPromising(all)
		if b.batches%neglectedEvery == 0 && len(out) == n-1 {
			top = b.neglected(all, out, least, top)
		}
		out = append(out, top.point)
		rest := all[:0]
		for _, o := range all {
			if o.point == top.point {
				continue
			}
			if o.surrogate == top.surrogate {
				o.improvement *= 1 - math.Pow(o.surrogate.correlation(o.x, top.x), 2)
			}
			rest = append(rest, o)
		}
		all = rest
	}
	return out
}

func mostPromising(all []option) option {
	return slices.MaxFunc(all, func(x, y option) int {
		return cmp.Or(cmp.Compare(x.improvement, y.improvement), cmp.Compare(y.point, x.point))
	})
}

// warp returns the logarithm of the distance between a score and the best score.
func warp(score, least float64) float64 { return math.Log(score - least + warpOffset) }

const warpOffset = 0.5

func (s *State) warped(points []int, least float64) []float64 {
	out := make([]float64, len(points))
	for k, i := range points {
		out[k] = warp(s.Score(i), least)
	}
	return out
}

// maxTraining bounds the number of points of a surrogate (the model that predicts scores), because its cost grows with
// the cube of this number.
const maxTraining = 160

// trainingPoints returns the fastest measured points of a kernel, and some of the others.
func (k *kernelModel) trainingPoints(s *State) []int {
	all := s.Ranked(slices.DeleteFunc(slices.Clone(k.points), s.Fresh))
	if len(all) <= maxTraining {
		return all
	}
	out := slices.Clone(all[:maxTraining/2])
	rest := all[maxTraining/2:]
	for i := range maxTraining / 2 {
		out = append(out, rest[i*len(rest)/(maxTraining/2)])
	}
	return out
}

func (k *kernelModel) options(s *State, expected prior, least float64) []option {
	known := k.trainingPoints(s)
	k.surrogate.at = nil
	k.batches++
	if len(known) == 0 {
		return nil
	}
	at := make([][]float64, len(known))
	for n, i := range known {
		at[n] = k.coordinates(s.Space, i)
	}
	k.surrogate.prior = expected
	k.surrogate.update(at, s.warped(known, least))
	return k.scoreFresh(s, k.surrogate, func(point int) []float64 { return k.coordinates(s.Space, point) })
}

// candidates returns the unmeasured points to predict. Of a large kernel it returns only every n-th point, and the
// neighbours of the fastest points. Each batch begins at another point, so that n batches reach all points.
func (k *kernelModel) candidates(s *State) []int {
	fresh := func(points []int) []int {
		return slices.DeleteFunc(points, func(i int) bool { return !s.Fresh(i) })
	}
	step := (len(k.points) + maxPredicted - 1) / maxPredicted
	if step == 1 {
		return fresh(slices.Clone(k.points))
	}
	var out []int
	for i := k.batches % step; i < len(k.points); i += step {
		out = append(out, k.points[i])
	}
	fastest := s.Ranked(slices.DeleteFunc(slices.Clone(k.points), s.Fresh))
	for _, point := range fastest[:min(fastestNeighbours, len(fastest))] {
		for _, i := range s.Space.Neighbors(point) {
			if s.Space.Design(s.Space.Config(i)) == k.kernel {
				out = append(out, i)
			}
		}
	}
	slices.Sort(out)
	return fresh(slices.Compact(out))
}

func (k *kernelModel) scoreFresh(s *State, p *surrogate, at func(int) []float64) []option {
	var out []option
	for _, point := range k.candidates(s) {
		x := at(point)
		out = append(out, option{point: point, surrogate: p, x: x, mean: p.predict(x)})
	}
	slices.SortFunc(out, func(a, b option) int { return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.point, b.point)) })
	out = out[:min(len(out), maxScored)]
	var xs [][]float64
	for _, o := range out {
		xs = append(xs, o.x)
	}
	for i, deviation := range p.deviations(xs) {
		out[i].improvement = expectedImprovement(math.Log(warpOffset), out[i].mean, deviation)
	}
	return out
}
