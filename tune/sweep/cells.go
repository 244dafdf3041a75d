package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// cells lists the searches in order: op, format and shape, tokens ascending,
// same results before any, routing.
func (pl *planner) cells() ([]*cell, error) {
	problems := pl.problems()
	slices.SortStableFunc(problems, func(a, b ep.Problem) int {
		return cmp.Or(
			slices.Index(ep.Ops(), a.Op)-slices.Index(ep.Ops(), b.Op),
			slices.Index(ep.DTypes(), a.Dispatch)-slices.Index(ep.DTypes(), b.Dispatch),
			a.Tokens-b.Tokens,
			cmp.Compare(a.Precision, b.Precision))
	})
	var out []*cell
	for _, p := range slices.Compact(problems) {
		if _, err := pl.defaultConfig(p); err != nil {
			return nil, err
		}
		for _, d := range pl.opts.Distributions {
			out = append(out, &cell{problem: p, dist: d, incumb: -1, neighbour: -1, class: workloads.ClassOf(d, p, pl.opts.Seed)})
		}
	}
	return out, nil
}

// problems are those asked for. Pairs bring their halves along, and where
// other results are accepted too, each problem comes once more if that leaves
// more to choose from.
func (pl *planner) problems() []ep.Problem {
	out := slices.Clone(pl.opts.Problems)
	for _, p := range pl.opts.Problems {
		for _, half := range []ep.Op{ep.Dispatch, ep.Combine} {
			q := p
			q.Op = half
			if p.Op == ep.Pair && !slices.Contains(out, q) {
				out = append(out, q)
			}
		}
	}
	if pl.opts.ResultClass {
		for _, p := range slices.Clone(out) {
			if p.Precision = ep.Reduced; Loosens(pl.kernels, p.Op) {
				out = append(out, p)
			}
		}
	}
	return out
}

// Loosens reports whether a kernel of an op has a parameter that changes
// results, so that accepting any leaves more to choose from.
func Loosens(known []kernels.Kernel, op ep.Op) bool {
	return slices.ContainsFunc(kernels.Of(known, op), func(k kernels.Kernel) bool {
		return slices.ContainsFunc(k.Params, func(q kernels.Param) bool { return q.Class == kernels.Precision })
	})
}

func (c *cell) title() string {
	text := fmt.Sprintf("%s, %s, %d tokens, %s", c.problem.Op, c.problem.Dispatch, c.problem.Tokens, c.dist.Spec())
	if c.problem.Precision == ep.Reduced {
		text += ", any results"
	}
	return text
}

// draw makes the workload.
func (c *cell) draw(seed uint64) (err error) {
	if c.workload, err = workloads.New(c.dist, c.problem, seed); err != nil {
		return fmt.Errorf("--%w", err)
	}
	o := &c.outcome
	o.Problem, o.Routing, o.Class = c.problem, c.dist.Spec(), c.class
	o.Bytes = c.workload.BytesOp(c.problem.Op, workloads.Direct)
	o.Imbalance = c.workload.Stats().MaxMeanRank
	return nil
}

// record is what the run says of a workload.
func (c *cell) record() record.Workload {
	w := c.workload
	return record.Workload{
		Problem: c.problem.Key(), Routing: w.Spec, Seed: w.Seed, Class: c.class,
		BytesOut: w.BytesOp(c.problem.Op, workloads.Direct), BytesWire: w.BytesOp(c.problem.Op, workloads.Dedup),
		Stats: w.Stats().Map(),
	}
}

// spaces is what the run says of a cell's space.
func (c *cell) spaces() []record.SpaceInfo {
	var out []record.SpaceInfo
	for _, n := range c.counts {
		out = append(out, SpaceInfo(c.problem, n))
	}
	return out
}

// SpaceInfo is what a run says of a grid.
func SpaceInfo(p ep.Problem, n search.Count) record.SpaceInfo {
	info := record.SpaceInfo{Kernel: n.Kernel, Problem: p.Key(), Points: n.Points, Legal: n.Legal}
	for _, r := range n.Rejected {
		info.Rejected = append(info.Rejected, record.Rejection(r))
	}
	return info
}

// populate makes the space of a cell with its required candidates: the
// default, each kernel's own default, the analytic choice, what the table and
// the space file say, and the winners next to it.
func (s *sweeper) populate(c *cell) error {
	if err := s.enumerate(c); err != nil {
		return err
	}
	dflt, err := s.planner.defaultConfig(c.problem)
	if err != nil {
		return err
	}
	c.dflt, c.roles = c.space.Add(dflt), map[int]record.Role{}
	if a, ok := s.planner.analytic(c.problem); ok {
		s.require(c, a, record.Analytic)
	}
	for _, k := range kernels.Of(s.planner.kernels, c.problem.Op) {
		if c.problem.Op != ep.Pair { // pairs come from measured halves
			for _, cfg := range s.planner.starts(k, c.problem) {
				s.require(c, cfg, record.Candidate)
			}
		}
		for _, cfg := range s.opts.Space.Candidates(k.Name) {
			s.require(c, cfg, record.Candidate)
		}
	}
	for _, cfg := range c.pairs {
		s.require(c, cfg, record.Candidate)
	}
	for _, cfg := range s.neighbours(c) {
		c.neighbour = s.require(c, cfg, record.Candidate)
	}
	for _, class := range []ep.Class{ep.AllRoutings, c.class} {
		if cfg, ok := s.shipped(c, class); ok {
			c.incumb = s.require(c, cfg, record.Incumbent)
		}
	}
	c.outcome.Legal = c.space.Len()
	return nil
}

// starts are a kernel's own choice and the designs that it says may win, and,
// where any results are accepted, what they become with each other value of a
// parameter that changes them: a search short of time must not miss a whole
// algorithm.
func (pl *planner) starts(k kernels.Kernel, p ep.Problem) []ep.Config {
	designs := []ep.Config{k.DefaultWithin(pl.machine, p, pl.opts.MaxSMs)}
	if k.Starts != nil {
		designs = append(designs, k.Starts(pl.allowed(), p)...)
	}
	out := designs
	if p.Precision != ep.Reduced {
		return out
	}
	for _, c := range designs {
		for _, q := range k.Params {
			for _, v := range q.Values {
				if q.Class == kernels.Precision && v != c.Values[q.Name] {
					out = append(out, c.With(q.Name, v))
				}
			}
		}
	}
	return out
}

// enumerate makes the grids of a cell; those of a pair come from the winners
// of its halves.
func (s *sweeper) enumerate(c *cell) (err error) {
	if c.problem.Op != ep.Pair {
		c.space, c.counts, err = s.planner.base(c.problem)
		return err
	}
	d, k := s.beside(c, ep.Dispatch).best(pairBest), s.beside(c, ep.Combine).best(pairBest)
	var grids []search.Grid
	c.pairs = nil
	for _, of := range s.planner.pairs(c.problem, d, k) {
		g, err := search.Listed(of.configs, costOf(of.kernel))
		if err != nil {
			return err
		}
		grids, c.pairs = append(grids, g), append(c.pairs, of.configs[:of.begin]...)
	}
	c.space, c.counts, err = search.NewSpace(grids...)
	return err
}

// pairBest is how many finalists of each half make the pairs.
const pairBest = 5

// best lists the fastest n configs of each kernel, finalists before the rest,
// and last the default: a combine can only follow a dispatch of its own family,
// so that the best of one kernel do not make pairs.
func (c *cell) best(n int) []ep.Config {
	if c.hunt == nil {
		return []ep.Config{c.outcome.Default}
	}
	var out []ep.Config
	var order []int
	for _, f := range c.finals {
		order = append(order, f.Point)
	}
	order = append(order, c.hunt.Ranked(c.hunt.Measured())...)
	count, seen := map[string]int{}, map[int]bool{c.dflt: true}
	for _, point := range order {
		cfg := c.space.Config(point)
		if !seen[point] && count[cfg.Kernel] < n {
			seen[point] = true
			count[cfg.Kernel]++
			out = append(out, cfg)
		}
	}
	return append(out, c.outcome.Default)
}

// require adds a legal config to what must be measured and returns its point,
// -1 if it cannot run here or gives results that are not accepted.
func (s *sweeper) require(c *cell, cfg ep.Config, role record.Role) int {
	k, err := kernels.Find(s.planner.kernels, c.problem.Op, cfg.Kernel)
	if err != nil || k.Check(s.planner.machine, c.problem, cfg) != nil || s.planner.smallEnough(k)(cfg) != "" {
		return -1
	}
	if c.problem.Precision == ep.Full && k.Changes(k.DefaultConfig(s.planner.machine, c.problem), cfg) != "" {
		return -1
	}
	i := c.space.Add(cfg)
	if i != c.dflt && !slices.Contains(c.required, i) {
		c.required = append(c.required, i)
	}
	if i != c.dflt && role != record.Candidate {
		c.roles[i] = role
	}
	return i
}

// neighbours are the winners of the next smaller token count under the same
// routing, last, of the same problem under the routings before, and of the same
// problem and routing in the formats before; where any results are accepted,
// those for the same results too.
func (s *sweeper) neighbours(c *cell) []ep.Config {
	var here, below []ep.Config
	var least *cell
	for _, o := range s.cells[:s.done] {
		p, q, r := o.problem, o.problem, o.problem
		p.Tokens, p.MaxTokens = c.problem.Tokens, c.problem.MaxTokens
		q.Precision = c.problem.Precision
		r.Dispatch = c.problem.Dispatch
		sameRouting := o.dist.Spec() == c.dist.Spec()
		switch {
		case o.outcome.Config.Kernel == "":
		case q == c.problem, r == c.problem && sameRouting: // one for any results never comes before one for the same
			here = append(here, o.outcome.Config)
		case p == c.problem && sameRouting && (least == nil || o.problem.Tokens > least.problem.Tokens):
			least = o
		}
	}
	if least != nil {
		below = append(below, least.outcome.Config)
	}
	return append(here, below...)
}

// shipped is what the incumbent table says of a cell to who knows a class of its
// routing.
func (s *sweeper) shipped(c *cell, class ep.Class) (ep.Config, bool) {
	if s.opts.Incumbent == nil {
		return ep.Config{}, false
	}
	a := s.opts.Incumbent.Lookup(table.KeyOf(c.problem, class), c.problem.Tokens)
	return a.Config, !a.Config.IsDefault()
}
