package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/workloads"
)

// An InterleavedRun is one of several runs that take turns.
type InterleavedRun struct {
	Backend kernels.Backend
	Options *Options // the caller sets Seed and Band
	Job     Job      // Job.Rounds is the number of turns
}

// A Side is one run's part in an Interleaving: a config and the run's default.
type Side struct {
	Run             *InterleavedRun
	Problem         ep.Problem
	Config, Default ep.Config
}

// An Interleaving holds one workload and the sides that run it.
type Interleaving struct {
	Routing string
	Seed    uint64
	Sides   []Side
}

// Interleave measures the sides of each interleaving in alternating turns, so that drift of the machine affects all
// sides alike. A side that fails is recorded, and the other sides go on. Interleave calls `done` after each
// interleaving. Interleave returns an error only if ctx is cancelled.
func Interleave(ctx context.Context, all []Interleaving, done func(Interleaving)) error {
	for _, il := range all {
		if err := il.run(ctx); err != nil {
			return err
		}
		done(il)
	}
	for _, il := range all {
		for _, s := range il.Sides {
			s.Run.Job.Run.Finished = time.Now().UTC()
		}
	}
	return nil
}

func (il Interleaving) run(ctx context.Context) error {
	sides := make([]*activeSide, len(il.Sides))
	turns := 0
	for i, s := range il.Sides {
		sides[i] = newActiveSide(il, s)
		turns = max(turns, s.Run.Job.Rounds)
	}
	eachAtOnce(sides, func(a *activeSide) { a.prepare(ctx) })
	rng := rand.New(rand.NewPCG(il.Seed, il.hash()))
	var order []int
	for turn := range turns {
		if turn%2 == 0 {
			order = rng.Perm(len(sides))
		} else {
			slices.Reverse(order)
		}
		for _, i := range order {
			sides[i].runRound(ctx)
		}
		if ctx.Err() != nil {
			break
		}
	}
	eachAtOnce(sides, func(a *activeSide) { a.finish(ctx) })
	return ctx.Err()
}

// eachAtOnce calls f for all sides in parallel. This is safe because sides share no backend and no run.
func eachAtOnce(sides []*activeSide, f func(*activeSide)) {
	var all sync.WaitGroup
	for _, a := range sides {
		all.Go(func() { f(a) })
	}
	all.Wait()
}

func (il Interleaving) hash() uint64 {
	f := fnv.New64a()
	fmt.Fprintf(f, "%q %q", il.Sides[0].Problem.Key(), il.Routing)
	return f.Sum64()
}

type activeSide struct {
	Side
	routedProblem
	harness    *harness
	comparison *comparison
	seconds    map[int][]float64
	lost       error
}

func newActiveSide(il Interleaving, s Side) *activeSide {
	a := &activeSide{Side: s, seconds: map[int][]float64{}}
	a.routedProblem.problem = s.Problem
	d, err := workloads.Parse(il.Routing)
	if err == nil {
		a.routedProblem, err = newRoutedProblem(s.Problem, d, il.Seed)
	}
	if err == nil {
		a.harness = newHarness(s.Run.Backend, newPlanner(s.Run.Backend, s.Run.Options), s.Run.Job.Log)
		a.comparison, err = a.harness.newComparison(&a.routedProblem, "interleave", s.Default, s.Config)
	}
	a.lost = err
	return a
}

func (a *activeSide) distinctPoints() []int { return slices.Compact(slices.Clone(a.comparison.points)) }

func (a *activeSide) prepare(ctx context.Context) {
	if a.lost == nil {
		a.lost = a.comparison.runner.Prepare(ctx, record.StageRecheck, a.distinctPoints())
	}
}

// runRound runs each config once. First it makes a call that it does not record, because the GPU switches from another
// process to this one during this call.
func (a *activeSide) runRound(ctx context.Context) {
	if a.lost != nil || ctx.Err() != nil {
		return
	}
	a.comparison.runner.Warm(ctx)
	samples, err := a.comparison.runner.Measure(ctx, record.StageTurns, a.distinctPoints(), 1)
	for _, s := range samples {
		a.seconds[s.Point] = append(a.seconds[s.Point], s.Seconds)
	}
	if _, reason := a.comparison.failureCause(err); err == nil && reason != "" {
		err = errors.New(reason)
	}
	a.lost = err
}

func (a *activeSide) finish(ctx context.Context) {
	if a.comparison == nil {
		a.add(a.newFailure())
		return
	}
	if a.lost == nil {
		_, a.lost = a.comparison.runner.Recheck(ctx, record.StageRecheck, a.distinctPoints())
	}
	if _, reason := a.comparison.failureCause(a.lost); a.lost == nil && reason != "" {
		a.lost = errors.New(reason)
	}
	if err := a.comparison.close(nil); a.lost == nil {
		a.lost = err
	}
	if ctx.Err() != nil {
		return
	}
	if a.lost != nil {
		a.add(a.newFailure())
		return
	}
	a.add(a.decide())
}

func (a *activeSide) newFailure() record.Search {
	out := record.Search{Problem: a.Problem, Class: a.class}
	if a.workload != nil {
		out = a.newResult()
	}
	out.Decision = stat.Fail(stat.Comparison{Config: a.Config, Default: a.Default}, record.Failed, a.lost.Error())
	return out
}

func (a *activeSide) decide() record.Search {
	out, r := a.newResult(), a.comparison.runner
	m := a.comparison.undecided(record.Band{Policy: a.harness.policy.Band})
	dflt, cfg := a.seconds[a.comparison.points[0]], a.seconds[a.comparison.points[1]]
	m.Gain = stat.Exactly(len(cfg))
	if a.comparison.points[0] != a.comparison.points[1] {
		m.Gain = stat.Ratio(stat.Part{A: stat.Logs(dflt), B: stat.Logs(cfg)})
	}
	out.Decision = stat.Compare(m)
	out.Clock, out.Times, out.DefaultTimes = r.Clock(), stat.TimesOf(cfg), stat.TimesOf(dflt)
	out.MaxErr, out.Tried = r.MaxErr(a.comparison.points[1]), len(a.distinctPoints())
	return out
}

func (a *activeSide) add(result record.Search) {
	run := a.Run.Job.Run
	if a.harness != nil {
		run.Wall = run.Wall.Plus(a.harness.wall)
	}
	run.Searches = append(run.Searches, result)
	if a.workload != nil {
		run.Workloads = append(run.Workloads, a.record())
	}
}
