// Package sweep joins searching and measuring. MakePlan lists the searches of a sweep, one for each problem and
// routing. Run carries them out, and writes a run directory and a tuned table.
//
// After the searches, crossAll measures the winners of all routings under each routing. refineAll measures at further
// token counts. A rowMaker makes the table's rows.
package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/spacefile"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// Options says what to sweep, and how.
type Options struct {
	Problems      []ep.Problem
	Distributions []workloads.Distribution
	Seed          uint64
	Strategy      string
	Evaluations   int           // configs of one search; 0 means all
	Time          time.Duration // of the whole sweep; 0 means no bound

	Params    map[string][]ep.Value // values by parameter, replacing the kernels' own
	Kernels   []string              // nil means all
	MaxSMs    int                   // 0 means no bound
	Band      float64               // replaces the policy's band if it is wider
	Precision ep.Precision          // Reduced also allows partial sums in BF16
	Space     *spacefile.File       // may be nil
	Incumbent *table.Table          // may be nil
	Sessions  int                   // further sessions, at least 2; 0 or 1: none; see DefaultSessions

	Began    time.Time // zero means the start of Run
	Tool     string
	Progress func(Event)
}

// Policy returns how a sweep measures on a machine.
func (o *Options) Policy(m ep.Machine) measure.Policy {
	p := measure.PolicyFor(m).Coarser(o.Band)
	switch {
	case o.Sessions == 1:
		p.Sessions = 0
	case o.Sessions != DefaultSessions:
		p.Sessions = o.Sessions
	}
	return p
}

// DefaultSessions stands for the policy's number of sessions.
const DefaultSessions = -1

// An Event reports the progress of a sweep.
type Event struct {
	Done, All int
	Title     string
	Stage     record.Stage
}

// A Plan lists the searches of a sweep.
type Plan struct {
	Searches    []PlannedSearch
	Fingerprint string // of spaces and kernels
	Samples     int    // see PlannedSearch.Samples
	AtLeast     time.Duration
	Policy      measure.Policy
	Probed      *Probe // set by Probe

	Options *Options // the caller may still set Progress

	planner  *planner
	strategy search.Strategy
}

// A PlannedSearch is one search of a plan.
type PlannedSearch struct {
	routedProblem
	Spaces   []record.SpaceInfo // by kernel; nil for pairs
	Legal    int
	Measured int // configs that the budget allows

	// Samples estimates the samples of a race and its finals. It does not count those that only noisy machines need:
	// further rounds of new configs, more finalists and further rounds of the finals. Nor does it count A/A tests,
	// confirmations, sessions and crossAll.
	Samples int
}

// Problem returns the problem of the search.
func (s PlannedSearch) Problem() ep.Problem { return s.problem }

// Routing returns the spec of the routing.
func (s PlannedSearch) Routing() string { return s.routing.Spec() }

// Class returns the routing class of the search's rows.
func (s PlannedSearch) Class() ep.Class { return s.class }

// MakePlan makes the plan of a sweep without touching the hardware.
func MakePlan(b kernels.Backend, opts *Options) (*Plan, error) {
	out := &Plan{Policy: opts.Policy(b.Machine()), Options: opts, planner: newPlanner(b, opts)}
	var err error
	if out.strategy, err = search.ParseStrategy(opts.Strategy); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if err := out.planner.checkOptions(); err != nil {
		return nil, err
	}
	routedProblems, err := out.planner.routedProblems()
	if err != nil {
		return nil, err
	}
	prints := sha256.New()
	for _, s := range routedProblems {
		planned := PlannedSearch{routedProblem: s, Legal: pairHalves * pairHalves}
		if s.problem.Op != ep.Pair {
			space, infos, err := out.planner.enumerate(s.problem)
			if err != nil {
				return nil, err
			}
			planned.Legal, planned.Spaces = space.Len(), infos
			fmt.Fprintln(prints, s.problem.Key(), space.Fingerprint(ABI(b)))
		}
		planned.estimate(opts, out.Policy, out.repeatsSibling(&planned))
		out.Samples += planned.Samples
		out.Searches = append(out.Searches, planned)
	}
	out.Fingerprint = hex.EncodeToString(prints.Sum(nil))[:16]
	out.AtLeast = time.Duration(float64(out.Samples) * out.Policy.MinSample * float64(time.Second))
	return out, nil
}

// siblingConfigs estimates how many configs a search measures if the same combine was already searched with another
// dispatch dtype.
const siblingConfigs = 8

func (p *Plan) repeatsSibling(s *PlannedSearch) bool {
	return s.problem.Op == ep.Combine && slices.ContainsFunc(p.Searches, func(o PlannedSearch) bool {
		q := o.problem
		q.Dispatch = s.problem.Dispatch
		return q == s.problem && o.problem != s.problem && o.Routing() == s.Routing() && o.Legal == s.Legal
	})
}

func (s *PlannedSearch) estimate(opts *Options, p measure.Policy, repeats bool) {
	s.Measured = s.Legal
	if repeats {
		s.Measured = min(s.Measured, siblingConfigs)
	}
	if opts.Evaluations > 0 {
		s.Measured = min(s.Measured, opts.Evaluations)
	}
	s.Samples = search.RaceSamples(s.Measured) + min(s.Measured, p.Finalists)*p.MaxRounds
}

func (pl *planner) checkOptions() error {
	for _, name := range slices.Sorted(maps.Keys(pl.opts.Params)) {
		if pl.param("", name) == nil {
			return fmt.Errorf("--param: no kernel has a parameter %q; known: %s", name, strings.Join(pl.paramNames(), ", "))
		}
	}
	var known []string
	for _, k := range pl.kernels {
		known = append(known, k.Name)
	}
	for _, name := range pl.opts.Kernels {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--kernel: no kernel is called %q; known: %s", name, strings.Join(known, ", "))
		}
	}
	return cmp.Or(pl.opts.Space.Check(pl.declaredParams()), pl.checkSpaceFileConfigs())
}

func (pl *planner) declaredParams() map[string]map[string]spacefile.Declared {
	out := map[string]map[string]spacefile.Declared{}
	for _, k := range pl.allKernels {
		params := map[string]spacefile.Declared{}
		for _, q := range k.Params {
			params[q.Name] = spacefile.Declared{Unit: q.Unit, Binding: string(q.Binding), Class: string(q.Class)}
		}
		out[k.Name] = params
	}
	return out
}

// checkSpaceFileConfigs refuses a required config that no search can run.
func (pl *planner) checkSpaceFileConfigs() error {
	for _, k := range pl.kernels {
		for _, c := range pl.opts.Space.Candidates(k.Name) {
			var err error
			for _, p := range pl.problems() {
				if p.Op != k.Op {
					continue
				}
				if err = k.Check(pl.machine, p, c); err == nil {
					break
				}
			}
			if err != nil {
				return fmt.Errorf("space: required: %s cannot run here: %w", c.Key(), err)
			}
		}
	}
	return nil
}

func (pl *planner) param(kernel, name string) *kernels.Param {
	for _, k := range pl.kernels {
		for i := range k.Params {
			if (kernel == "" || k.Name == kernel) && k.Params[i].Name == name {
				return &k.Params[i]
			}
		}
	}
	return nil
}

func (pl *planner) paramNames() []string {
	var out []string
	for _, k := range pl.kernels {
		for _, q := range k.Params {
			if !slices.Contains(out, q.Name) {
				out = append(out, q.Name)
			}
		}
	}
	return out
}

func (pl *planner) legalPoints(p ep.Problem) int {
	space, _, err := pl.enumerate(p)
	if err != nil {
		return 0
	}
	return space.Len()
}

type enumeratedSpace struct {
	space *search.Space
	infos []record.SpaceInfo
}

// enumerate returns a copy of a problem's space.
func (pl *planner) enumerate(p ep.Problem) (*search.Space, []record.SpaceInfo, error) {
	if e, ok := pl.spaces[p]; ok {
		return e.space.Clone(), e.infos, nil
	}
	grids, err := pl.grids(p)
	if err != nil {
		return nil, nil, err
	}
	space, infos, err := search.NewSpace(grids...)
	if err != nil {
		return nil, nil, err
	}
	for i := range infos {
		infos[i].Problem = p.Key()
	}
	pl.spaces[p] = enumeratedSpace{space, infos}
	return space.Clone(), infos, nil
}
