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

// InterleavedRun is one backend of several that take turns. Its results go to its own job.
type InterleavedRun struct {
	Backend kernels.Backend
	Options *Options // the seed and the band
	Job     Job      // Rounds are those of each config, one a turn
}

// Side is what a side runs in a heat: a config, and the side's default beside it.
type Side struct {
	Run             *InterleavedRun
	Problem         ep.Problem
	Config, Default ep.Config
}

// Interleaving is one workload for the sides that run it.
type Interleaving struct {
	Routing string
	Seed    uint64
	Sides   []Side
}

// Interleave measures the entrants of each heat in alternating turns, so that a drift of
// the machine hits all of them alike. In a turn an entrant runs one round of its config
// and one of its default; the order of entrants is random and turned around in every
// other turn. All sides' processes live at the same time and one runs at a time. An
// entrant that fails is recorded as failed, and the others go on; the error is that of
// ctx or of a log. done is called after each heat.
func Interleave(ctx context.Context, heats []Interleaving, done func(Interleaving)) error {
	for _, h := range heats {
		if err := h.run(ctx); err != nil {
			return err
		}
		done(h)
	}
	for _, h := range heats {
		for _, e := range h.Sides {
			e.Run.Job.Run.Finished = time.Now().UTC()
		}
	}
	return nil
}

func (h Interleaving) run(ctx context.Context) error {
	players := make([]*activeSide, len(h.Sides))
	turns := 0
	for i, e := range h.Sides {
		players[i] = newActiveSide(h, e)
		turns = max(turns, e.Run.Job.Rounds)
	}
	rng := rand.New(rand.NewPCG(h.Seed, h.hash()))
	var order []int
	for turn := range turns {
		if turn%2 == 0 {
			order = rng.Perm(len(players))
		} else {
			slices.Reverse(order)
		}
		for _, i := range order {
			players[i].runRound(ctx)
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, p := range players {
		p.finish(ctx)
	}
	return ctx.Err()
}

// hash tells the heats of a run apart.
func (h Interleaving) hash() uint64 {
	f := fnv.New64a()
	fmt.Fprintf(f, "%q %q", h.Sides[0].Problem.Key(), h.Routing)
	return f.Sum64()
}

// activeSide is an entrant that is measured.
type activeSide struct {
	Side
	subject
	harness    *harness
	comparison *comparison
	seconds    map[int][]float64 // seconds by point, one a turn
	lost       error             // why it is out
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

// distinctPoints are the default and the config, one where they are the same.
func (p *activeSide) distinctPoints() []int { return slices.Compact(slices.Clone(p.comparison.points)) }

// runRound runs each config once. A call that is not recorded comes first: the GPU has to
// come back from another process.
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

// finish compares answers once more and files the result.
func (p *activeSide) finish(ctx context.Context) {
	if p.comparison == nil {
		p.file(p.newFailure())
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
		p.file(p.newFailure())
		return
	}
	p.file(p.decide())
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
	m.Gain, m.Rounds = record.One, len(cfg)
	if p.comparison.points[0] != p.comparison.points[1] {
		m.Gain = stat.MedianRatio(logs(dflt), logs(cfg))
	}
	out.Decision = stat.Compare(m)
	out.Clock, out.Times, out.DefaultTime = r.Clock(), timesOf(cfg), timesOf(dflt)
	out.MaxErr, out.Tried = r.MaxErr(p.comparison.points[1]), len(p.distinctPoints())
	return out
}

func (p *activeSide) file(result record.Search) {
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
