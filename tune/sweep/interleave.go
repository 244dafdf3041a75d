package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/workloads"
)

// An InterleavedRun is one of several runs that take turns. Its results go to its own job.
type InterleavedRun struct {
	Backend kernels.Backend
	Options *Options // the caller sets Seed and Band
	Job     Job      // Job.Rounds is the number of turns; each config runs one round in a turn
}

// A Side is the part of one run in an interleaved comparison: a config and the run's default.
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

// Interleave measures the sides of each interleaving in alternating turns, so that a drift of
// the machine affects all of them alike. In a turn a side runs one round of its config
// and one of its default. The order of sides is random, and reversed in every
// other turn. All processes live at the same time, but only one runs at a time. A
// side that fails is recorded as failed, and the others go on. Interleave returns only
// errors of ctx or of a log. It calls done after each interleaving.
func Interleave(ctx context.Context, all []Interleaving, done func(Interleaving)) error {
	for _, h := range all {
		if err := h.run(ctx); err != nil {
			return err
		}
		done(h)
	}
	for _, h := range all {
		for _, e := range h.Sides {
			e.Run.Job.Run.Finished = time.Now().UTC()
		}
	}
	return nil
}

func (h Interleaving) run(ctx context.Context) error {
	sides := make([]*activeSide, len(h.Sides))
	turns := 0
	for i, e := range h.Sides {
		sides[i] = newActiveSide(h, e)
		turns = max(turns, e.Run.Job.Rounds)
	}
	rng := rand.New(rand.NewPCG(h.Seed, h.hash()))
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
	for _, p := range sides {
		p.finish(ctx)
	}
	return ctx.Err()
}

// hash returns a seed that differs from interleaving to interleaving.
func (h Interleaving) hash() uint64 {
	f := fnv.New64a()
	fmt.Fprintf(f, "%q %q", h.Sides[0].Problem.Key(), h.Routing)
	return f.Sum64()
}

// activeSide is a side that is being measured.
type activeSide struct {
	Side
	subject
	harness    *harness
	comparison *comparison
	seconds    map[int][]float64 // seconds by point, one value for each turn
	lost       error             // the error after which the side is no longer measured
}

func newActiveSide(h Interleaving, e Side) *activeSide {
	p := &activeSide{Side: e, seconds: map[int][]float64{}}
	p.subject.problem = e.Problem
	d, err := workloads.Parse(h.Routing)
	if err == nil {
		p.subject, err = newSubject(e.Problem, d, h.Seed)
	}
	if err == nil {
		p.harness = newHarness(e.Run.Backend, newPlanner(e.Run.Backend, e.Run.Options), e.Run.Job.Log)
		p.comparison, err = p.harness.newComparison(&p.subject, "interleave", e.Default, e.Config)
	}
	p.lost = err
	return p
}

// distinctPoints returns the points of the default and of the config; one point if they are the same.
func (p *activeSide) distinctPoints() []int { return slices.Compact(slices.Clone(p.comparison.points)) }

// runRound runs each config once. Before that it makes one call that it does not record, because
// the GPU must first switch from another process.
func (p *activeSide) runRound(ctx context.Context) {
	if p.lost != nil || ctx.Err() != nil {
		return
	}
	p.comparison.runner.Warm(ctx)
	samples, err := p.comparison.runner.Measure(ctx, record.StageTurns, p.distinctPoints(), 1)
	for _, s := range samples {
		p.seconds[s.Point] = append(p.seconds[s.Point], s.Seconds)
	}
	if _, reason := p.comparison.failureCause(err); err == nil && reason != "" {
		err = errors.New(reason)
	}
	p.lost = err
}

// finish compares answers again and adds the result to the run.
func (p *activeSide) finish(ctx context.Context) {
	if p.comparison == nil {
		p.add(p.newFailure())
		return
	}
	if p.lost == nil {
		_, p.lost = p.comparison.runner.Recheck(ctx, record.StageRecheck, p.distinctPoints())
	}
	if _, reason := p.comparison.failureCause(p.lost); p.lost == nil && reason != "" {
		p.lost = errors.New(reason)
	}
	if err := p.comparison.close(nil); p.lost == nil {
		p.lost = err
	}
	if ctx.Err() != nil {
		return
	}
	if p.lost != nil {
		p.add(p.newFailure())
		return
	}
	p.add(p.decide())
}

func (p *activeSide) newFailure() record.Search {
	out := record.Search{Problem: p.Problem, Class: p.class}
	if p.workload != nil {
		out = p.newResult()
	}
	out.Decision = stat.Fail(stat.Comparison{Config: p.Config, Default: p.Default}, record.Failed, p.lost.Error())
	return out
}

func (p *activeSide) decide() record.Search {
	out, r := p.newResult(), p.comparison.runner
	m := p.comparison.undecided(record.Band{Policy: p.harness.policy.Band})
	dflt, cfg := p.seconds[p.comparison.points[0]], p.seconds[p.comparison.points[1]]
	m.Gain = stat.Exactly(len(cfg))
	if p.comparison.points[0] != p.comparison.points[1] {
		m.Gain = stat.Ratio(stat.Part{A: logs(dflt), B: logs(cfg)})
	}
	out.Decision = stat.Compare(m)
	out.Clock, out.Times, out.DefaultTimes = r.Clock(), timesOf(cfg), timesOf(dflt)
	out.MaxErr, out.Tried = r.MaxErr(p.comparison.points[1]), len(p.distinctPoints())
	return out
}

func (p *activeSide) add(result record.Search) {
	run := p.Run.Job.Run
	run.Searches = append(run.Searches, result)
	if p.workload != nil {
		run.Workloads = append(run.Workloads, p.record())
	}
}

func logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

func timesOf(xs []float64) record.Times {
	return record.Times{Median: stat.Median(xs), P10: stat.Quantile(xs, 0.1), P90: stat.Quantile(xs, 0.9)}
}
