package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/record"
)

// bayes begins with wide draws from every kernel, and then measures what a Gaussian
// process of each kernel expects most of; while few points are known, one over all kernels
// has a say, too. A kernel that is behind keeps being tried, as long as these do not rule
// out that it holds something better.
func bayes(ctx context.Context, s *State) error {
	return runBayes(ctx, s, func() bool { return false })
}

// auto measures every point where that fits the budget, and else goes about it as bayes
// does. Under a time limit it asks again after every batch: the first configs wait for
// the compiler and make the rest look slow.
func auto(ctx context.Context, s *State) error {
	if !s.Timed() && s.Left() >= s.freshLeft() {
		return race(ctx, s)
	}
	return runBayes(ctx, s, s.spaceFits)
}

// runBayes is bayes until whole says that all the rest can be measured too.
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
		if len(next) > 0 { // with the default the best links these rounds to the ones before
			best := s.Ranked(s.Measured())
			next = append(next, best[:min(1, len(best))]...)
		}
	}
	return nil
}

const (
	batchSize           = 4    // points that are measured side by side
	smallBatch          = 2    // of them, while few are known
	fewPoints           = 50   // points
	maxInitial          = 48   // wide draws and required points, beyond which only a kernel that lacks draws gets one
	initialShare        = 0.4  // of the budget that wide draws take
	maxInitialPerKernel = 2    // of a kernel, whatever they show; see drawsEach
	perKernelShare      = 0.25 // of the budget that these take at most
	competitiveGap      = 0.7  // scores that a kernel may be behind the best and still get more of them
	maxPredicted        = 4000 // points of a kernel that are looked at for the next batch, at most
	maxScored           = 160  // of these, how many get their doubt computed
)

// bayesSearch is the state of the strategy.
type bayesSearch struct {
	*State
	kernels []*kernelModel
	shared  *sharedSurrogate // while few points are known
	initial int              // wide draws so far, and what the search begins with
	started bool             // the first draws were made
}

// kernelModel is one kernel with its process.
type kernelModel struct {
	kernel    string
	axes      []Axis
	points    []int
	initial   []int // wide draws, and what the search begins with
	surrogate *surrogate
	coords    map[int][]float64
}

func newBayesSearch(s *State) *bayesSearch {
	b := &bayesSearch{State: s}
	byKernel := map[string]*kernelModel{}
	for i := range s.Space.Len() {
		kernel := s.Space.Config(i).Kernel
		k := byKernel[kernel]
		if k == nil {
			axes := s.Space.axes(kernel)
			k = &kernelModel{kernel: kernel, axes: axes, surrogate: newSurrogate(len(axes)), coords: map[int][]float64{}}
			byKernel[kernel] = k
			b.kernels = append(b.kernels, k)
		}
		k.points = append(k.points, i)
		if slices.Contains(s.Required, i) {
			k.initial = append(k.initial, i)
		}
	}
	b.initial = len(s.Required)
	b.shared = newSharedSurrogate(s.Space, b.kernels)
	return b
}

// coordinates are the coordinates of a point: the place of each value on its axis, from 0 to 1,
// so that two values are one apart.
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

// nextInitial are the next of the first draws, none where enough were made. First every kernel has
// one or two, with what the search begins with counted in. Then those take turns whose best is
// within reach of the best of all. Under a time limit draws come in chunks.
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

// drawInitial takes at most n points from the kernels that want some, in turn: each is the one of
// a few that is furthest from those before.
func (b *bayesSearch) drawInitial(wants func(*kernelModel) bool, n int) (out []int) {
	if b.Timed() {
		n = min(n, chunk)
	}
	for turn := 0; len(out) < n && turn < n*len(b.kernels); turn++ {
		k := b.kernels[turn%len(b.kernels)]
		if !wants(k) {
			continue
		}
		if point := k.furthest(b.State); point >= 0 {
			k.initial = append(k.initial, point)
			out = append(out, point)
		}
	}
	return out
}

// initialQuota is how many wide draws there are in all.
func (b *bayesSearch) initialQuota() int {
	n := min(maxInitial, b.Left()+b.initial)
	if b.budget.Evaluations > 0 {
		n = min(n, int(initialShare*float64(b.budget.Evaluations)))
	}
	return n
}

// needsInitial says that a kernel has too few draws to be judged by. Draws that failed do not count.
func (b *bayesSearch) needsInitial(k *kernelModel) bool {
	n := 0
	for _, i := range k.initial {
		if b.Fresh(i) || !b.Failed(i) {
			n++
		}
	}
	return n < min(b.initialPerKernel(), len(k.points))
}

// initialPerKernel is how many draws every kernel has, whatever they show: one where a second of each
// would take too much of the budget. Where there is more of it that one may have been bad luck,
// and nobody would come back to the kernel.
func (b *bayesSearch) initialPerKernel() int {
	if n := b.budget.Evaluations; n > 0 && float64(maxInitialPerKernel*len(b.kernels)) > perKernelShare*float64(n) {
		return 1
	}
	return maxInitialPerKernel
}

// competitive tells of a kernel whether its best draw is near enough to the best point of all.
func (b *bayesSearch) competitive() func(*kernelModel) bool {
	least := b.least()
	return func(k *kernelModel) bool {
		return slices.ContainsFunc(k.initial, func(i int) bool { return b.Score(i) <= least+competitiveGap })
	}
}

// initialTries of a wide draw.
const initialTries = 12

// furthest is the one of a few random fresh points that differs most from the nearest of
// those drawn before, -1 where it found none.
func (k *kernelModel) furthest(s *State) int {
	best, most := -1, -1.0
	for range initialTries {
		point := k.points[s.Rand.IntN(len(k.points))]
		if !s.Fresh(point) || slices.Contains(s.Required, point) || slices.Contains(k.initial, point) {
			continue
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

// option is a point that may be measured next.
type option struct {
	point       int
	surrogate   *surrogate
	x           []float64
	mean        float64
	improvement float64
}

// least is the best score so far.
func (b *bayesSearch) least() float64 {
	least := math.Inf(1)
	for _, i := range b.points {
		least = min(least, b.Score(i))
	}
	return least
}

// batch is how many points are measured before the next choice. While few are known each
// says much about the next. Under a time limit batches are large from the beginning, so
// that compilers work side by side.
func (b *bayesSearch) batch() int {
	if !b.Timed() && b.Tried() < fewPoints {
		return smallBatch
	}
	return batchSize
}

// next returns up to n points to measure now, those worth most first. The Gaussian process of
// a point's kernel estimates its worth. While few points are known, the process that all
// kernels share estimates it too.
func (b *bayesSearch) next(n int) []int {
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
		top := slices.MaxFunc(all, func(x, y option) int {
			return cmp.Or(cmp.Compare(x.improvement, y.improvement), cmp.Compare(y.point, x.point))
		})
		out = append(out, top.point)
		rest := all[:0]
		for _, o := range all {
			if o.point == top.point {
				continue
			}
			if o.surrogate == top.surrogate { // what the new point will say of this one need not be measured twice
				o.improvement *= 1 - math.Pow(o.surrogate.correlation(o.x, top.x), 2)
			}
			rest = append(rest, o)
		}
		all = rest
	}
	return out
}

// warp spreads scores near the best and presses together those far from it: which of two
// slow points is slower does not matter.
func warp(score, least float64) float64 { return math.Log(score - least + warpOffset) }

const warpOffset = 0.5

// warped are the scores of measured points, warped.
func (s *State) warped(points []int, least float64) []float64 {
	out := make([]float64, len(points))
	for k, i := range points {
		out[k] = warp(s.Score(i), least)
	}
	return out
}

// maxTraining bounds the measured points that a process takes in: its cost grows with
// their cube.
const maxTraining = 160

// trainingPoints are the measured points of a kernel, the best first, and of many every few of the
// slow ones.
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

// options are the fresh points of a kernel with what they are worth by its own process.
func (k *kernelModel) options(s *State, expected prior, least float64) []option {
	known := k.trainingPoints(s)
	k.surrogate.at = nil
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

// scoreFresh are the points of a kernel that can still be tried and of which a process expects
// most, with what they are worth by it.
func (k *kernelModel) scoreFresh(s *State, p *surrogate, at func(int) []float64) []option {
	var out []option
	for step, i := 1+len(k.points)/maxPredicted, 0; i < len(k.points); i += step {
		if point := k.points[i]; s.Fresh(point) {
			x := at(point)
			out = append(out, option{point: point, surrogate: p, x: x, mean: p.predict(x)})
		}
	}
	slices.SortFunc(out, func(a, b option) int { return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.point, b.point)) })
	out = out[:min(len(out), maxScored)]
	var xs [][]float64
	for _, o := range out {
		xs = append(xs, o.x)
	}
	for i, doubt := range p.deviations(xs) {
		out[i].improvement = expectedImprovement(math.Log(warpOffset), out[i].mean, doubt)
	}
	return out
}
