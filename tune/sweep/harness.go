package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/workloads"
)

// A harness holds the backend, rules and log of a command.
type harness struct {
	backend  kernels.Backend
	planner  *planner
	policy   measure.Policy
	log      measure.Log
	recorded *measure.RecordedBlocks
	wall     record.Wall
	lap      measure.Lap
	empty    map[string]float64 // an empty kernel's seconds, by clock
}

func newHarness(b kernels.Backend, pl *planner, log measure.Log) *harness {
	return &harness{backend: b, planner: pl, policy: pl.opts.Policy(b.Machine()), log: log}
}

func (l *harness) cost(op ep.Op, c ep.Config) ep.Cost {
	k, _ := kernels.Find(l.planner.kernels, op, c.Kernel)
	return k.CostOf(c)
}

type routedProblem struct {
	problem  ep.Problem
	routing  workloads.Distribution
	class    ep.Class
	workload *workloads.Workload
}

func newRoutedProblem(p ep.Problem, d workloads.Distribution, seed uint64) (routedProblem, error) {
	s := routedProblem{problem: p, routing: d}
	err := s.draw(seed)
	return s, err
}

func (s *routedProblem) draw(seed uint64) (err error) {
	if s.workload, err = workloads.New(s.routing, s.problem, seed); err != nil {
		return fmt.Errorf("--%w", err)
	}
	s.class = cmp.Or(s.class, s.workload.Class)
	return nil
}

func (s *routedProblem) record() record.Workload {
	w := s.workload
	return record.Workload{
		Problem: s.problem.Key(), Routing: w.Spec, Seed: w.Seed, Class: s.class,
		BytesOut: w.BytesOp(s.problem.Op, workloads.Direct), BytesWire: w.BytesOp(s.problem.Op, workloads.Dedup),
		BytesMemory: w.BytesMemory(s.problem.Op),
		Stats:       w.Stats().Map(),
	}
}

func (s *routedProblem) newResult() record.Search {
	return record.Search{
		Problem: s.problem, Routing: s.routing.Spec(), Class: s.class,
		Bytes: s.workload.BytesOp(s.problem.Op, workloads.Direct) + s.workload.BytesMemory(s.problem.Op), Imbalance: s.workload.Stats().MaxMeanRank,
	}
}

func (s *routedProblem) title() string {
	text := fmt.Sprintf("%s, %s, %s, %s", s.problem.Op, s.problem.Dispatch, ep.Tokens(s.problem.Tokens), s.routing.Spec())
	if s.problem.Precision == ep.Reduced {
		text += ", reduced precision"
	}
	if s.problem.Beside != "" {
		text += ", beside " + s.problem.Beside
	}
	return text
}

func (l *harness) runner(s *routedProblem, space *search.Space, dflt int) *measure.Runner {
	return measure.New(measure.Setup{
		Backend: l.backend, Workload: s.workload, Space: space, Default: dflt, Policy: l.policy, Log: l.log, Recorded: l.recorded,
		Wall: &l.wall, Lap: &l.lap, Cost: func(c ep.Config) ep.Cost { return l.cost(s.problem.Op, c) },
	})
}

func (l *harness) legal(p ep.Problem, c ep.Config) error {
	k, err := kernels.Find(l.planner.kernels, p.Op, c.Kernel)
	if err == nil {
		err = k.Check(l.planner.machine, p, c)
	}
	if err != nil {
		return fmt.Errorf("%s cannot run %s here: %w", c.Key(), p.Op, err)
	}
	return nil
}

// measureAA measures the default against itself. It takes at most Policy.AAShare of the time `limit`. If `limit` is 0,
// it takes as long as it needs.
func (l *harness) measureAA(ctx context.Context, r *measure.Runner, limit time.Duration) (record.AA, error) {
	share := time.Duration(l.policy.AAShare * float64(limit))
	aa, err := l.policy.MeasureAA(ctx, r, r.Default, share)
	aa.Problem, aa.Routing = r.Workload.Problem.Key(), r.Workload.Spec
	return aa, err
}

// hostBound returns a function of the default's time in seconds. If an empty kernel takes hardly less time, the
// function returns a text that says that launch parameters cannot matter. Otherwise it returns "".
func (l *harness) hostBound(r *measure.Runner) func(seconds float64) string {
	return func(seconds float64) string {
		if r.Workload.Problem.Objective == ep.BesideProduct || !measure.HostBound(seconds, r.Clock(), l.empty) {
			return ""
		}
		return fmt.Sprintf("launch parameters cannot matter here: the clock reads %.3g us for an empty kernel and %.3g us for the default",
			1e6*l.empty[r.Clock()], 1e6*seconds)
	}
}

// A comparison measures configs against the first of them, all in the same rounds.
type comparison struct {
	*routedProblem
	space  *search.Space
	points []int
	runner *measure.Runner
	state  *search.State
}

func (l *harness) newComparison(s *routedProblem, purpose string, configs ...ep.Config) (*comparison, error) {
	space, _, err := search.NewSpace()
	if err != nil {
		return nil, err
	}
	c := &comparison{routedProblem: s, space: space}
	for _, cfg := range configs {
		if err := l.legal(s.problem, cfg); err != nil {
			return nil, err
		}
		c.points = append(c.points, space.Add(cfg))
	}
	if b, ok := l.backend.(kernels.Precompiler); ok {
		b.Precompile(s.problem, configs)
	}
	c.runner = l.runner(s, space, c.points[0])
	c.state = search.NewState(space, c.runner, search.Budget{}, c.points[0], nil, rand.New(rand.NewPCG(c.runner.Seed(purpose), 0)))
	return c, nil
}

// undecided returns the comparison before its gain is known. The caller may set the gain.
func (c *comparison) undecided(band record.Band) stat.Comparison {
	return stat.Comparison{Config: c.space.Config(c.points[1]), Default: c.space.Config(c.points[0]), Band: band}
}

func (c *comparison) close(err error) error { return errors.Join(err, c.runner.Close()) }
