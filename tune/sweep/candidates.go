package sweep

import (
	"cmp"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/table"
)

type candidates struct {
	space     *search.Space
	dflt      int
	required  []int
	roles     map[int]record.Role
	starts    []record.Start // required configs, and where each comes from
	incumbent int            // point of the config in the old table, or -1
	neighbour int            // point that won a neighbouring search, or -1
}

func (pl *planner) routedProblems() ([]routedProblem, error) {
	problems := pl.problems()
	slices.SortStableFunc(problems, func(a, b ep.Problem) int {
		return cmp.Or(
			slices.Index(ep.Ops(), a.Op)-slices.Index(ep.Ops(), b.Op),
			slices.Index(ep.DTypes(), a.Dispatch)-slices.Index(ep.DTypes(), b.Dispatch),
			a.Tokens-b.Tokens,
			cmp.Compare(a.Precision, b.Precision))
	})
	var out []routedProblem
	for _, p := range slices.Compact(problems) {
		if _, err := pl.defaultConfig(p); err != nil {
			return nil, err
		}
		for _, d := range pl.opts.Distributions {
			s, err := newRoutedProblem(p, d, pl.opts.Seed)
			if err != nil {
				return nil, err
			}
			s.workload = nil // to save memory
			out = append(out, s)
		}
	}
	return out, nil
}

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
	if pl.opts.Precision == ep.Reduced {
		for _, p := range slices.Clone(out) {
			if p.Precision = ep.Reduced; ReducesPrecision(pl.kernels, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// ReducesPrecision reports whether some kernel of a problem has a parameter of class precision.
func ReducesPrecision(known []kernels.Kernel, p ep.Problem) bool {
	return slices.ContainsFunc(kernels.For(known, p), func(k kernels.Kernel) bool {
		return slices.ContainsFunc(k.Params, func(q kernels.Param) bool { return q.Class == kernels.Precision })
	})
}

func (s *sweeper) addRequired(c *activeSearch) error {
	halves, err := s.makeSpace(c)
	if err != nil {
		return err
	}
	dflt, err := s.harness.planner.defaultConfig(c.problem)
	if err != nil {
		return err
	}
	c.dflt, c.roles, c.incumbent, c.neighbour = c.space.Add(dflt), map[int]record.Role{}, -1, -1
	if a, ok := s.harness.planner.analytic(c.problem); ok {
		s.require(c, a, record.FromModel)
	}
	for _, cfg := range s.harness.planner.kernelStarts(c.problem) {
		s.require(c, cfg, record.FromKernel)
	}
	for _, cfg := range s.harness.planner.spaceFileConfigs(c.problem) {
		s.require(c, cfg, record.FromSpace)
	}
	for _, cfg := range halves {
		s.require(c, cfg, record.FromHalves)
	}
	for _, cfg := range s.neighbours(c) {
		if point := s.require(c, cfg, record.FromSearch); point >= 0 {
			c.neighbour = point
		}
	}
	for _, class := range []ep.Class{c.class, ep.AllRoutings} {
		cfg, ok := s.incumbent(c, class)
		if !ok {
			continue
		}
		point := c.dflt
		if !cfg.IsDefault() {
			point = s.require(c, cfg, record.FromIncumbent)
		}
		if c.incumbent < 0 {
			c.incumbent = point
		}
	}
	c.result.Legal, c.result.Starts, c.result.Designs = c.space.Len(), c.starts, c.space.Designs()
	return nil
}

func (pl *planner) requiredStarts(p ep.Problem) []ep.Config {
	return append(pl.kernelStarts(p), pl.spaceFileConfigs(p)...)
}

func (pl *planner) kernelStarts(p ep.Problem) (out []ep.Config) {
	if p.Op == ep.Pair {
		return nil
	}
	for _, k := range pl.searchedKernels(p) {
		out = append(out, pl.startsOf(k, p)...)
	}
	return out
}

func (pl *planner) spaceFileConfigs(p ep.Problem) (out []ep.Config) {
	for _, k := range kernels.For(pl.kernels, p) {
		out = append(out, pl.opts.Space.Candidates(k.Name)...)
	}
	return out
}

// fewSMs lists small limits of the number of SMs. If a search minimizes the cost beside a matrix product, it also
// measures each kernel's default under each of these limits.
var fewSMs = []int{16, 32}

// startsOf returns a kernel's default, and the configs that the kernel declares as starts of a search. At reduced
// precision, startsOf adds copies that differ in one precision parameter.
func (pl *planner) startsOf(k kernels.Kernel, p ep.Problem) []ep.Config {
	designs := []ep.Config{k.DefaultWithin(pl.machine, p, pl.opts.MaxSMs)}
	for _, sms := range fewSMs {
		if p.Objective == ep.BesideProduct && (pl.opts.MaxSMs == 0 || sms < pl.opts.MaxSMs) {
			designs = append(designs, k.DefaultWithin(pl.machine, p, sms))
		}
	}
	if k.Split != nil && p.Beside != "" {
		designs = append(designs, k.SplitWithin(pl.machine, p, pl.opts.MaxSMs))
	}
	if k.Starts != nil {
		designs = append(designs, k.Starts(pl.boundedMachine(), p)...)
	}
	out := designs
	if p.Precision == ep.Full {
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

// makeSpace makes the space of a search. For pairs, the space holds combinations of the best dispatch and combine
// configs, and `first` holds the best pairs.
func (s *sweeper) makeSpace(c *activeSearch) (first []ep.Config, err error) {
	if c.problem.Op != ep.Pair {
		c.space, _, err = s.harness.planner.enumerate(c.problem)
		return nil, err
	}
	all, first := s.harness.planner.pairs(c.problem, s.half(c, ep.Dispatch).fastest(pairHalves), s.half(c, ep.Combine).fastest(pairHalves))
	c.space, err = search.SpaceOf(all)
	return first, err
}

// pairHalves limits how many dispatch configs of each design (choice of algorithm) makeSpace takes for pairs, and how
// many combine configs.
const pairHalves = 5

// fastest returns the fastest n configs of each design, and then the default.
func (c *activeSearch) fastest(n int) []ep.Config {
	if c.state == nil {
		return []ep.Config{c.result.Decision.Default}
	}
	if c.sibling != nil {
		return c.sibling.fastest(n)
	}
	var out []ep.Config
	var order []int
	for _, f := range c.finals {
		order = append(order, f.Point)
	}
	order = append(order, c.state.Ranked(c.state.Measured())...)
	count, seen := map[string]int{}, map[int]bool{c.dflt: true}
	for _, point := range order {
		cfg := c.space.Config(point)
		design := c.space.Design(cfg)
		if !seen[point] && !c.state.Failed(point) && count[design] < n {
			seen[point] = true
			count[design]++
			out = append(out, cfg)
		}
	}
	return append(out, c.result.Decision.Default)
}

// require adds a required config, and returns the config's point. If the search does not allow the config, require
// returns -1.
func (s *sweeper) require(c *activeSearch, cfg ep.Config, from record.Origin) int {
	if !s.harness.planner.admits(c.problem, cfg) {
		return -1
	}
	i := c.space.Add(cfg)
	if i != c.dflt && !slices.Contains(c.required, i) {
		c.required, c.starts = append(c.required, i), append(c.starts, record.Start{Config: cfg, From: from})
	}
	if role, ok := startRoles[from]; ok && i != c.dflt {
		c.roles[i] = role
	}
	return i
}

var startRoles = map[record.Origin]record.Role{record.FromModel: record.Analytic, record.FromIncumbent: record.Incumbent}

// neighbours returns winners of earlier searches. First come winners at the same token count, under another routing,
// dtype or precision. The last one is the winner at the next smaller token count.
func (s *sweeper) neighbours(c *activeSearch) []ep.Config {
	var here []ep.Config
	var smaller *activeSearch
	for _, o := range s.searches[:s.done] {
		tokens, precision, dtype := o.problem.AtTokens(c.problem.Tokens, c.problem.MaxTokens), o.problem, o.problem
		precision.Precision = c.problem.Precision
		dtype.Dispatch = c.problem.Dispatch
		sameRouting := o.routing.Spec() == c.routing.Spec()
		switch {
		case !o.result.OK():
		case precision == c.problem, dtype == c.problem && sameRouting:
			here = append(here, o.hintForLater())
		case tokens == c.problem && sameRouting && (smaller == nil || o.problem.Tokens > smaller.problem.Tokens):
			smaller = o
		}
	}
	if smaller != nil {
		here = append(here, smaller.hintForLater())
	}
	return here
}

func (c *activeSearch) hintForLater() ep.Config {
	if c.result.Decision.Cause == record.Noisy {
		return c.result.Decision.Challenger
	}
	return c.result.Decision.Config
}

// incumbent returns the config that the old table has for a search and a routing class. If the table's row keeps the
// default, cfg is zero. ok is false if the table has no row.
func (s *sweeper) incumbent(c *activeSearch, class ep.Class) (cfg ep.Config, ok bool) {
	t, p := s.opts.Incumbent, c.problem
	if t == nil {
		return cfg, false
	}
	ofObjective := func(r table.Row) bool { return r.Key.Objective == p.Objective }
	if len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, ofObjective) {
		p.Objective = t.Rows[0].Key.Objective
	}
	a := t.Lookup(table.KeyOf(p, class), p.Tokens)
	return kernels.Current(s.harness.planner.allKernels, a.Config), a.Row != nil
}
