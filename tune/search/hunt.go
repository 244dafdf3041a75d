package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// Sample is the time of one point in one round: the slowest rank's, in
// seconds of one call.
type Sample struct {
	Point, Round int
	Seconds      float64
}

// Evaluator measures points of a space side by side. A machine, a recorded run
// and a synthetic landscape are all evaluators.
type Evaluator interface {
	// Measure runs rounds in each of which every live point is timed once,
	// in an order drawn for that round. Round numbers grow over all calls.
	// A point with fewer samples than rounds failed; it must not be asked
	// for again. An error means that nothing can be measured any more.
	Measure(ctx context.Context, stage record.Stage, live []int, rounds int) ([]Sample, error)
}

// Spender is implemented by evaluators that know what a search has cost so
// far. It must be reproducible: resumed searches decide by it again.
type Spender interface{ Spent() time.Duration }

// spent is what an evaluator has cost so far, 0 where it does not know.
func spent(e Evaluator) time.Duration {
	if s, ok := e.(Spender); ok {
		return s.Spent()
	}
	return 0
}

// Budget bounds a search. Zero fields do not bound.
type Budget struct {
	Evaluations int           // distinct points, required ones included
	Time        time.Duration // of the whole search, confirmation included
}

// Hunt is one search in progress: what strategies see. Every measurement
// includes the default, and every point is scored against it.
type Hunt struct {
	Space    *Space
	Rand     *rand.Rand
	Default  int   // the library default
	Required []int // never eliminated before confirmation; the default included

	eval   Evaluator
	budget Budget
	obs    []stat.Obs
	dense  map[int]int // point -> item of obs
	points []int       // item of obs -> point
	dead   map[int]bool
	effect []float64 // by item; nil when stale
	spent  int       // samples
}

// NewHunt prepares a search. Required points need not contain the default.
func NewHunt(s *Space, e Evaluator, b Budget, dflt int, required []int, rng *rand.Rand) *Hunt {
	h := &Hunt{Space: s, Rand: rng, Default: dflt, eval: e, budget: b, dense: map[int]int{}, dead: map[int]bool{}}
	h.Required = append(h.Required, dflt)
	for _, i := range required {
		if !slices.Contains(h.Required, i) {
			h.Required = append(h.Required, i)
		}
	}
	return h
}

// ErrDefault ends a search whose yardstick does not run.
var ErrDefault = errors.New("the default config failed: nothing can be compared with it")

// Measure times live points, and the default, for some rounds. New points
// beyond the budget are left out. See Score for the outcome.
func (h *Hunt) Measure(ctx context.Context, stage record.Stage, live []int, rounds int) error {
	batch := h.admit(live)
	if len(batch) < 2 && h.measured(h.Default) {
		return nil
	}
	samples, err := h.eval.Measure(ctx, stage, batch, rounds)
	if err != nil {
		return err
	}
	h.spent += len(samples)
	count := map[int]int{}
	for _, s := range samples {
		count[s.Point]++
		h.obs = append(h.obs, stat.Obs{Item: h.item(s.Point), Round: s.Round, Log: math.Log(s.Seconds)})
	}
	for _, i := range batch {
		if count[i] < rounds {
			h.item(i)
			h.dead[i] = true
		}
	}
	h.effect = nil
	if h.dead[h.Default] {
		return ErrDefault
	}
	return nil
}

// admit is live without the dead, the doubled and what exceeds the budget,
// with the default in front.
func (h *Hunt) admit(live []int) []int {
	batch, left := []int{h.Default}, h.Left()
	seen := map[int]bool{h.Default: true}
	for _, i := range live {
		if seen[i] || h.dead[i] {
			continue
		}
		seen[i] = true
		if !h.measured(i) && !slices.Contains(h.Required, i) {
			if left == 0 {
				continue
			}
			left--
		}
		batch = append(batch, i)
	}
	return batch
}

func (h *Hunt) item(point int) int {
	k, ok := h.dense[point]
	if !ok {
		k = len(h.points)
		h.dense[point] = k
		h.points = append(h.points, point)
	}
	return k
}

func (h *Hunt) measured(point int) bool {
	_, ok := h.dense[point]
	return ok
}

// Failed reports whether a point failed, and was not revived since.
func (h *Hunt) Failed(point int) bool { return h.dead[point] }

// Fresh reports whether a point can still be tried.
func (h *Hunt) Fresh(point int) bool { return !h.measured(point) }

// Left is how many fresh points the budget admits, required ones aside.
func (h *Hunt) Left() int {
	left := h.Space.Len()
	if n := h.budget.Evaluations; n > 0 {
		used := len(h.points)
		for _, i := range h.Required {
			if !h.measured(i) {
				used++
			}
		}
		left = max(0, min(left, n-used))
	}
	if h.searchTime() <= 0 {
		return 0
	}
	return left
}

// searchShare of a time budget goes to strategies, the rest to confirmation.
const searchShare = 0.5

// Timed reports whether the budget is bounded by time.
func (h *Hunt) Timed() bool {
	_, ok := h.eval.(Spender)
	return ok && h.budget.Time > 0
}

// searchTime is what strategies may still spend.
func (h *Hunt) searchTime() time.Duration {
	if !h.Timed() {
		return math.MaxInt64
	}
	return time.Duration(searchShare*float64(h.budget.Time)) - spent(h.eval)
}

// Afford bounds rounds of n points by the time that strategies, or with all
// the confirmation, may still spend. It is at least 1.
func (h *Hunt) afford(n, rounds int, left time.Duration) int {
	if !h.Timed() || h.spent == 0 {
		return rounds
	}
	each := float64(spent(h.eval)) / float64(h.spent)
	return max(1, min(rounds, int(float64(left)/(each*float64(max(n, 1))))))
}

// Rounds bounds rounds of n points by what is left of the search time.
func (h *Hunt) Rounds(n, rounds int) int { return h.afford(n, rounds, h.searchTime()) }

// Score is the logarithm of a point's time over the default's, cleared of what
// its rounds had in common: +Inf for a point that failed or was not measured.
func (h *Hunt) Score(point int) float64 {
	k, ok := h.dense[point]
	if !ok || h.dead[point] {
		return math.Inf(1)
	}
	if h.effect == nil {
		h.effect, _ = stat.Polish(h.obs, h.dense[h.Default])
	}
	if k >= len(h.effect) || math.IsNaN(h.effect[k]) { // it failed before its first sample
		return math.Inf(1)
	}
	return h.effect[k] - h.effect[h.dense[h.Default]]
}

// Ranked lists the living among points, fastest first; equal scores keep the
// order of their indices.
func (h *Hunt) Ranked(points []int) []int {
	var out []int
	for _, i := range points {
		if !math.IsInf(h.Score(i), 1) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.Score(a), h.Score(b)), cmp.Compare(a, b))
	})
	return slices.Compact(out)
}

// Measured lists the points tried so far, in order of index.
func (h *Hunt) Measured() []int { return slices.Sorted(slices.Values(h.points)) }

// Keep is the best n of points together with the required ones.
func (h *Hunt) Keep(points []int, n int) []int {
	ranked := h.Ranked(points)
	out := slices.Clone(ranked[:min(n, len(ranked))])
	for _, i := range h.Required {
		if !slices.Contains(out, i) && !h.dead[i] {
			out = append(out, i)
		}
	}
	return out
}

// Shuffled lists fresh points of the space in random order, required ones
// aside: all of them, or at most the budget. Kernels take turns, so that one
// with ten thousand points does not keep a budget from one with thirty.
func (h *Hunt) Shuffled() []int {
	order := h.Rand.Perm(h.Space.Len())
	order = slices.DeleteFunc(order, func(i int) bool { return h.measured(i) || slices.Contains(h.Required, i) })
	order = dealt(order, func(i int) int { return h.Space.kernel(i) })
	return order[:min(len(order), h.Left())]
}

// dealt reorders items so that groups take turns, each in its own order.
func dealt(items []int, group func(int) int) []int {
	turn := map[int]int{}
	turns := make(map[int]int, len(items))
	for _, i := range items {
		turns[i] = turn[group(i)]
		turn[group(i)]++
	}
	slices.SortStableFunc(items, func(a, b int) int { return turns[a] - turns[b] })
	return items
}

// Revive lets failed points be measured again.
func (h *Hunt) Revive(points []int) {
	for _, i := range points {
		delete(h.dead, i)
	}
}

// Tried is the number of distinct points measured.
func (h *Hunt) Tried() int { return len(h.points) }

// Samples is the number of timings taken.
func (h *Hunt) Samples() int { return h.spent }

func (h *Hunt) String() string {
	return fmt.Sprintf("%d of %d points in %d samples", len(h.points), h.Space.Len(), h.spent)
}
