package measure

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/workloads"
)

// A Log keeps blocks of results.
type Log interface {
	Append(block []record.Result, wall float64) error
}

// Setup says what a Runner measures, and how.
type Setup struct {
	Backend  kernels.Backend
	Workload *workloads.Workload
	Space    *search.Space
	Default  int
	Roles    map[int]record.Role // may be nil
	Cost     func(ep.Config) ep.Cost
	Policy   Policy
	Log      Log             // may be nil
	Recorded *RecordedBlocks // may be nil
	Wall     *record.Wall
	Lap      *Lap               // if set, a block's wall time begins at the end of the block before
	Progress func(record.Stage) // may be nil
}

// A Runner measures the points of one space on one workload. Blocks that are in the log of an earlier run are not
// measured again.
type Runner struct {
	Setup

	// Generation counts retries. Blocks after a retry have other numbers than the blocks before it.
	Generation int

	session     kernels.Session
	twin        kernels.Session      // nil if the twin shares `session`
	shared      string               // why the twin shares `session`, or ""
	ready       map[int]bool         // prepared and verified
	blocks      map[record.Stage]int // next block of each stage
	failed      map[int]*kernels.Failure
	errs        map[int]float64 // largest error by point
	beside      map[int]*stageTogether
	stages      map[string][]ep.StageTime // of a layer, by config
	round       int
	opened      int
	fold        int
	clock       string
	mhz         [][]float64
	paceCounted map[int]bool
	paced       record.PaceFit
	spent       float64 // seconds of all blocks
	latest      time.Time
}

// New makes a Runner. The first measurement opens the session.
func New(s Setup) *Runner {
	return &Runner{Setup: s, blocks: map[record.Stage]int{}, failed: map[int]*kernels.Failure{}, errs: map[int]float64{}, paceCounted: map[int]bool{}, beside: map[int]*stageTogether{}}
}

// ErrLost says that the machine can no longer measure.
var ErrLost = errors.New("the machine is lost")

// ErrOpen says that a backend opened no session: the workload does not fit, or the machine is gone.
var ErrOpen = errors.New("no session")

// Measure implements search.Evaluator.
func (r *Runner) Measure(ctx context.Context, stage record.Stage, live []int, rounds int) ([]search.Sample, error) {
	lines, err := r.next(ctx, stage, live, func(block int) ([]record.Result, error) { return r.block(ctx, stage, block, live, rounds) })
	if err != nil {
		return nil, err
	}
	samples := r.flatten(live, lines)
	r.round += rounds
	if r.Progress != nil {
		r.Progress(stage)
	}
	return samples, nil
}

// next returns the next block of a stage, from the log or by measuring.
func (r *Runner) next(ctx context.Context, stage record.Stage, points []int, measure func(block int) ([]record.Result, error)) ([]record.Result, error) {
	block := r.nextBlock(stage)
	lines, wall, err := r.recordedBlock(stage, block, points)
	defer r.Lap.Start()
	if err == nil && lines == nil {
		lines, wall, err = r.measureBlock(ctx, func() ([]record.Result, error) { return measure(block) })
	}
	if err != nil {
		return nil, err
	}
	r.spent += wall
	r.updatePace(points, lines, wall)
	return lines, nil
}

func (r *Runner) updatePace(points []int, lines []record.Result, wall float64) {
	configs, samples := 0, 0
	for i, point := range points {
		if !r.paceCounted[point] {
			r.paceCounted[point] = true
			configs++
		}
		samples += len(lines[i].Seconds)
	}
	r.paced.Add(configs, samples, wall)
}

// Pace returns the mean time that a new config takes, and the mean time of a sample.
func (r *Runner) Pace() record.Pace { return r.paced.Pace() }

const generationBlocks = 1000

func (r *Runner) nextBlock(stage record.Stage) int {
	n := max(r.blocks[stage], r.Generation*generationBlocks)
	r.blocks[stage] = n + 1
	return n
}

// Spent implements search.Evaluator.
func (r *Runner) Spent() time.Duration { return time.Duration(r.spent * float64(time.Second)) }

// Latest returns when the last block ended, in UTC and whole seconds.
func (r *Runner) Latest() time.Time { return r.latest }

// flatten returns a block's samples and updates the Runner.
func (r *Runner) flatten(live []int, lines []record.Result) []search.Sample {
	var out []search.Sample
	for i := range lines {
		times := lines[i].Rounds()
		for k, t := range times {
			out = append(out, search.Sample{Point: live[i], Round: lines[i].Round0 + k, Seconds: t})
		}
		r.latest = lines[i].Time.UTC().Truncate(time.Second)
		r.opened = max(r.opened, lines[i].Session)
		if r.fold == 0 {
			r.fold = lines[i].Fold
		}
		if lines[i].Clock != "" {
			r.clock = lines[i].Clock
		}
		if lines[i].MHz != nil {
			r.mhz = append(r.mhz, lines[i].MHz)
		}
		r.errs[live[i]] = max(r.errs[live[i]], lines[i].MaxErr)
		r.rememberBeside(live[i], &lines[i])
		if len(times) > 0 {
			delete(r.failed, live[i])
		}
		if lines[i].Status != ep.OK {
			r.failed[live[i]] = &kernels.Failure{Status: lines[i].Status, Reason: lines[i].Reason}
		}
	}
	return out
}

// Failures returns the failed points with their reasons.
func (r *Runner) Failures() map[int]*kernels.Failure { return r.failed }

// MaxErr returns the largest error of a point's answers against the oracle.
func (r *Runner) MaxErr(point int) float64 { return r.errs[point] }

// Clock returns the name of the clock, or "" before the first sample.
func (r *Runner) Clock() string { return r.clock }

// Config returns the config of a point. The twin has the default's config.
func (r *Runner) Config(point int) ep.Config {
	if point == search.Twin {
		point = r.Default
	}
	return r.Space.Config(point)
}

func (r *Runner) role(point int) record.Role {
	switch role, ok := r.Roles[point]; {
	case point == search.Twin:
		return record.Twin
	case point == r.Default:
		return record.Default
	case ok:
		return role
	}
	return record.Candidate
}

// rng returns a block's random source, the same in a resumed run.
func (r *Runner) rng(stage record.Stage, block int) *rand.Rand {
	return rand.New(rand.NewPCG(r.Workload.Seed, hash(r.Workload.Problem.Key(), r.Workload.Spec, string(stage), fmt.Sprint(block))))
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprintf(h, "%q", p)
	}
	return h.Sum64()
}

// Seed returns a seed derived from workload and purpose.
func (r *Runner) Seed(purpose string) uint64 {
	return r.Workload.Seed ^ hash(r.Workload.Problem.Key(), r.Workload.Spec, purpose)
}

// Close ends the session, if any.
func (r *Runner) Close() error {
	if r.session == nil {
		return nil
	}
	err := errors.Join(r.closeTwin(), r.session.Close())
	r.session, r.ready, r.shared = nil, nil, ""
	return err
}

// A kernel is host-bound if it takes at most hostFactor times as long as an empty kernel.
const hostFactor = 1.2

// HostBound reports whether a kernel takes hardly longer than an empty kernel. `empty` holds an empty kernel's seconds
// by clock.
func HostBound(seconds float64, clock string, empty map[string]float64) bool {
	reading, ok := empty[clock]
	return ok && seconds <= hostFactor*reading
}

// A Lap holds the time from which the next block's wall time is counted. Several runners share a Lap.
type Lap struct{ began time.Time }

// Start makes the next block's wall time count from now.
func (l *Lap) Start() {
	if l != nil {
		l.began = time.Now()
	}
}

func (l *Lap) start() time.Time {
	if l == nil || l.began.IsZero() {
		return time.Now()
	}
	return l.began
}

// stopwatch returns a function that adds the elapsed time to *seconds.
func stopwatch(seconds *float64) func() {
	start := time.Now()
	return func() { *seconds += time.Since(start).Seconds() }
}
