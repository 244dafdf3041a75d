package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// A Sample is the time of one point in one round: seconds of one call on the slowest rank.
type Sample struct {
	Point, Round int
	Seconds      float64
}

// An Evaluator measures points of a space. A point is the index of a config.
type Evaluator interface {
	// Measure measures each point in `live` once in every round, in random order. Each call continues the numbering of
	// rounds. A point with fewer than `rounds` samples has failed. After an error the evaluator cannot be used any
	// more.
	Measure(ctx context.Context, stage record.Stage, live []int, rounds int) ([]Sample, error)

	// Spent returns the time that the search has taken so far. A resumed search must get the same values as before.
	Spent() time.Duration
}

// Budget limits a search. A field that is 0 sets no limit.
type Budget struct {
	Evaluations int           // number of points, including the required ones
	Time        time.Duration // for the whole search, including the confirmation
}

// State is one search in progress. Every measurement includes the default config, which users launch without a tuned
// table. Scores are relative to the default.
type State struct {
	Space    *Space
	Rand     *rand.Rand
	Default  int
	Required []int // points that are always measured, including the default

	// Band limits the relative difference of two times that count as equal. If it is 0, new points get ScreenRounds
	// rounds, however noisy they are.
	Band float64

	AARounds int // rounds of the A/A test (the default against itself) before the search; 0: no test

	priors  priors // for the strategy bayes
	eval    Evaluator
	budget  Budget
	obs     []stat.Obs   // all samples
	itemOf  map[int]int  // [point] index in points
	points  []int        // [item] point
	crowded map[int]bool // [round] whether further finalists were measured too, see confirm
	failed  map[int]bool
	effect  []float64     // [item] logarithm of the time; nil if outdated
	rivals  int           // result of maybeFastest; 0 if outdated
	spent   int           // number of samples
	began   time.Duration // eval.Spent() before the first sample
	pace    pace
}

// pace holds the number of points so far, and how long their first measurements took.
type pace struct {
	points int
	time   time.Duration
}

// NewState prepares a search. It adds the default config to the required points.
func NewState(s *Space, e Evaluator, b Budget, dflt int, required []int, rng *rand.Rand) *State {
	out := &State{priors: usualPriors, Space: s, Rand: rng, Default: dflt, eval: e, budget: b, itemOf: map[int]int{}, failed: map[int]bool{}, crowded: map[int]bool{}}
	for _, i := range append([]int{dflt}, required...) {
		if !slices.Contains(out.Required, i) {
			out.Required = append(out.Required, i)
		}
	}
	return out
}

// ErrDefault is the error of a search in which the default config failed.
var ErrDefault = errors.New("the default config failed: nothing can be compared with it")

// Measure measures the default config and the points in `live` in new rounds. It leaves out failed points, and new
// points beyond the budget.
func (s *State) Measure(ctx context.Context, stage record.Stage, live []int, rounds int) error {
	batch := s.admit(live)
	if len(batch) < 2 && s.measured(s.Default) {
		return nil
	}
	before, fresh := s.eval.Spent(), len(slices.DeleteFunc(slices.Clone(batch), s.measured))
	if s.spent == 0 {
		s.began = before
	}
	samples, err := s.eval.Measure(ctx, stage, batch, rounds)
	if err != nil {
		return err
	}
	if fresh > 0 {
		s.pace.points += fresh
		s.pace.time += s.eval.Spent() - before
	}
	s.spent += len(samples)
	count := map[int]int{}
	for _, x := range samples {
		count[x.Point]++
		s.obs = append(s.obs, stat.Obs{Item: s.item(x.Point), Round: x.Round, Log: math.Log(x.Seconds)})
	}
	for _, i := range batch {
		if count[i] < rounds {
			s.item(i)
			s.failed[i] = true
		}
	}
	s.effect, s.rivals = nil, 0
	if s.failed[s.Default] {
		return ErrDefault
	}
	return nil
}

// admit returns the points that Measure measures.
func (s *State) admit(live []int) []int {
	batch, left := []int{s.Default}, s.Left()
	listed := map[int]bool{s.Default: true}
	for _, i := range live {
		if listed[i] || s.failed[i] {
			continue
		}
		listed[i] = true
		if !s.measured(i) && !slices.Contains(s.Required, i) {
			if left == 0 {
				continue
			}
			left--
		}
		batch = append(batch, i)
	}
	return batch
}

func (s *State) item(point int) int {
	k, ok := s.itemOf[point]
	if !ok {
		k = len(s.points)
		s.itemOf[point] = k
		s.points = append(s.points, point)
	}
	return k
}

func (s *State) measured(point int) bool {
	_, ok := s.itemOf[point]
	return ok
}

// Failed reports whether a point failed.
func (s *State) Failed(point int) bool { return s.failed[point] }

// Fresh reports whether a point was never measured.
func (s *State) Fresh(point int) bool { return !s.measured(point) }

func (s *State) freshLeft() int { return s.Space.Len() - len(s.points) }

// laterShare is the time of a race's later passes divided by the time of its first pass. The first pass measures all
// points. Later passes measure only the fastest points.
const laterShare = 0.3

// laterTime estimates how long the later passes of a race will take: a share of the time so far.
func (s *State) laterTime() time.Duration {
	return time.Duration(laterShare / (1 + laterShare) * float64(s.eval.Spent()))
}

// spaceFits reports whether the time that is left is enough for a race over all points that were not measured.
func (s *State) spaceFits() bool {
	if !s.Timed() || s.pace.points == 0 {
		return false
	}
	each := s.pace.time / time.Duration(s.pace.points)
	return time.Duration((1+laterShare)*float64(each))*time.Duration(s.freshLeft()) <= s.searchTime()
}

// Left returns how many more points the budget allows, besides the required points.
func (s *State) Left() int {
	left := s.Space.Len()
	if n := s.budget.Evaluations; n > 0 {
		used := len(s.points)
		for _, i := range s.Required {
			if !s.measured(i) {
				used++
			}
		}
		left = max(0, min(left, n-used))
	}
	if s.searchTime() <= 0 {
		return 0
	}
	return left
}

// These constants bound the share of a time budget that is reserved for finals and confirmation.
const (
	minReserved = 0.1
	maxReserved = 0.3
)

// reservedTime computes with these numbers of samples. The finals may have more points (see finalPoints) and more
// rounds (see furtherFinals), but only if time is left.
const (
	reservedFinalists = 24 // points in the finals
	reservedRounds    = 25 // mean rounds of a finalist in the quota (see finalists); most finalists drop out early
	reservedMore      = 10 // mean rounds of a finalist beyond the quota
	reservedConfirm   = 50 // samples of the confirmation
)

// reservedTime returns the time that is reserved for finals and confirmation.
func (s *State) reservedTime() time.Duration {
	most := maxReserved * float64(s.budget.Time)
	if s.spent == 0 {
		return time.Duration(most)
	}
	quota, more := s.finalists()
	quota = min(quota, reservedFinalists)
	samples := time.Duration(quota*reservedRounds + min(more, reservedFinalists-quota)*reservedMore + reservedConfirm)
	return time.Duration(min(max(float64(s.sampleTime()*samples), minReserved*float64(s.budget.Time)), most))
}

// Timed reports whether the budget limits the time.
func (s *State) Timed() bool { return s.budget.Time > 0 }

// searchTime returns the time that is left for the strategy.
func (s *State) searchTime() time.Duration {
	if !s.Timed() {
		return math.MaxInt64
	}
	return s.budget.Time - s.reservedTime() - s.eval.Spent()
}

// sampleTime returns the mean time of a sample. It takes the smaller mean of this search and of the A/A test, because
// both may be too large: the search also prepares configs, and the A/A test runs only the default, which may be slow.
func (s *State) sampleTime() time.Duration {
	each := (s.eval.Spent() - s.began) / time.Duration(max(s.spent, 1))
	if s.AARounds > 0 && s.began > 0 {
		each = min(each, s.began/time.Duration(2*s.AARounds))
	}
	return each
}

// Rounds returns how many rounds of n points fit in the time that is left, from 1 to `rounds`.
func (s *State) Rounds(n, rounds int) int {
	if !s.Timed() || s.sampleTime() == 0 {
		return rounds
	}
	return max(1, min(rounds, int(s.searchTime()/(s.sampleTime()*time.Duration(max(n, 1))))))
}

// Score returns the logarithm of a ratio: a point's time divided by the default's time. Disturbances that slow a whole
// round have no effect. For a point that failed or was not measured, Score returns +Inf.
func (s *State) Score(point int) float64 {
	k, ok := s.itemOf[point]
	if !ok || s.failed[point] {
		return math.Inf(1)
	}
	if s.effect == nil {
		s.effect, _ = stat.Polish(s.obs, s.itemOf[s.Default])
	}
	if k >= len(s.effect) || math.IsNaN(s.effect[k]) {
		return math.Inf(1)
	}
	return s.effect[k] - s.effect[s.itemOf[s.Default]]
}

// Ranked returns the points that have a finite score, the fastest first.
func (s *State) Ranked(points []int) []int {
	out := slices.DeleteFunc(slices.Clone(points), func(i int) bool { return math.IsInf(s.Score(i), 1) })
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.Score(a), s.Score(b)), cmp.Compare(a, b))
	})
	return slices.Compact(out)
}

// Measured returns the measured points, ordered by index.
func (s *State) Measured() []int { return slices.Sorted(slices.Values(s.points)) }

// Keep returns the fastest n of the points, and all required points that did not fail.
func (s *State) Keep(points []int, n int) []int {
	ranked := s.Ranked(points)
	out := ranked[:min(n, len(ranked)):min(n, len(ranked))]
	for _, i := range s.Required {
		if !slices.Contains(out, i) && !s.failed[i] {
			out = append(out, i)
		}
	}
	return out
}

// Shuffled returns points that were never measured, in random order, as many as the budget allows. The points of
// different kernels alternate.
func (s *State) Shuffled() []int {
	order := slices.DeleteFunc(s.Rand.Perm(s.Space.Len()), func(i int) bool { return s.measured(i) || slices.Contains(s.Required, i) })
	count, turn := map[int]int{}, make(map[int]int, len(order))
	for _, i := range order {
		kernel := s.Space.kernel(i)
		turn[i] = count[kernel]
		count[kernel]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return turn[a] - turn[b] })
	return order[:min(len(order), s.Left())]
}

// Revive clears the failures of points.
func (s *State) Revive(points []int) {
	for _, i := range points {
		delete(s.failed, i)
	}
}

// Tried returns the number of measured points.
func (s *State) Tried() int { return len(s.points) }

// Samples returns the number of samples so far.
func (s *State) Samples() int { return s.spent }
