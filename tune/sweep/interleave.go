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

// Side is one backend of several that take turns. Its results go to its own job.
type Side struct {
	Backend kernels.Backend
	Options *Options // the seed and the band
	Job     Job      // Rounds are those of each config, one a turn
}

// Entrant is what a side runs in a heat: a config, and the side's default beside it.
type Entrant struct {
	Side            *Side
	Problem         ep.Problem
	Config, Default ep.Config
}

// Heat is one workload for the sides that run it.
type Heat struct {
	Routing  string
	Seed     uint64
	Entrants []Entrant
}

// Interleave measures the entrants of each heat in alternating turns, so that a drift of
// the machine hits all of them alike. In a turn an entrant runs one round of its config
// and one of its default; the order of entrants is random and turned around in every
// other turn. All sides' processes live at the same time and one runs at a time. An
// entrant that fails is recorded as failed, and the others go on; the error is that of
// ctx or of a log. done is called after each heat.
func Interleave(ctx context.Context, heats []Heat, done func(Heat)) error {
	for _, h := range heats {
		if err := h.run(ctx); err != nil {
			return err
		}
		done(h)
	}
	for _, h := range heats {
		for _, e := range h.Entrants {
			e.Side.Job.Run.Finished = time.Now().UTC()
		}
	}
	return nil
}

func (h Heat) run(ctx context.Context) error {
	players := make([]*player, len(h.Entrants))
	turns := 0
	for i, e := range h.Entrants {
		players[i] = newPlayer(h, e)
		turns = max(turns, e.Side.Job.Rounds)
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
			players[i].turn(ctx)
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
func (h Heat) hash() uint64 {
	f := fnv.New64a()
	fmt.Fprintf(f, "%q %q", h.Entrants[0].Problem.Key(), h.Routing)
	return f.Sum64()
}

// player is an entrant that is measured.
type player struct {
	Entrant
	subject
	lab     *lab
	contest *contest
	times   map[int][]float64 // seconds by point, one a turn
	lost    error             // why it is out
}

func newPlayer(h Heat, e Entrant) *player {
	p := &player{Entrant: e, times: map[int][]float64{}}
	p.subject.problem = e.Problem
	d, err := workloads.Parse(h.Routing)
	if err == nil {
		p.subject, err = newSubject(e.Problem, d, h.Seed)
	}
	if err == nil {
		p.lab = newLab(e.Side.Backend, newPlanner(e.Side.Backend, e.Side.Options), e.Side.Job.Log)
		p.contest, err = p.lab.contest(&p.subject, "interleave", e.Default, e.Config)
	}
	p.lost = err
	return p
}

// points are the default and the config, one where they are the same.
func (p *player) points() []int { return slices.Compact(slices.Clone(p.contest.points)) }

// turn runs each config once. A call that is not recorded comes first: the GPU has to
// come back from another process.
func (p *player) turn(ctx context.Context) {
	if p.lost != nil || ctx.Err() != nil {
		return
	}
	p.contest.runner.Warm(ctx)
	samples, err := p.contest.runner.Measure(ctx, record.StageTurns, p.points(), 1)
	for _, s := range samples {
		p.times[s.Point] = append(p.times[s.Point], s.Seconds)
	}
	if _, reason := p.contest.failure(err); err == nil && reason != "" {
		err = errors.New(reason)
	}
	p.lost = err
}

// finish compares answers once more and files the result.
func (p *player) finish(ctx context.Context) {
	if p.contest == nil {
		p.file(p.newFailure())
		return
	}
	if p.lost == nil {
		_, p.lost = p.contest.runner.Recheck(ctx, record.StageRecheck, p.points())
	}
	if _, reason := p.contest.failure(p.lost); p.lost == nil && reason != "" {
		p.lost = errors.New(reason)
	}
	if err := p.contest.close(nil); p.lost == nil {
		p.lost = err
	}
	if ctx.Err() != nil {
		return
	}
	if p.lost != nil {
		p.file(p.newFailure())
		return
	}
	p.file(p.result())
}

func (p *player) newFailure() record.Search {
	out := record.Search{Problem: p.Problem, Class: p.class}
	if p.workload != nil {
		out = p.newResult()
	}
	out.Decision = stat.Fail(stat.Match{Config: p.Config, Default: p.Default}, record.Failed, p.lost.Error())
	return out
}

func (p *player) result() record.Search {
	out, r := p.newResult(), p.contest.runner
	m := p.contest.match(record.Band{Policy: p.lab.policy.Band})
	dflt, cfg := p.times[p.contest.points[0]], p.times[p.contest.points[1]]
	m.Gain, m.Rounds = record.One, len(cfg)
	if p.contest.points[0] != p.contest.points[1] {
		m.Gain = stat.MedianRatio(logs(dflt), logs(cfg))
	}
	out.Decision = stat.Compare(m)
	out.Clock, out.Times, out.DefaultTime = r.Clock(), timesOf(cfg), timesOf(dflt)
	out.MaxErr, out.Tried = r.MaxErr(p.contest.points[1]), len(p.points())
	return out
}

func (p *player) file(result record.Search) {
	run := p.Side.Job.Run
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
