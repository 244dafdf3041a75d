package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/spacefile"
)

type planner struct {
	machine    ep.Machine
	allKernels []kernels.Kernel
	kernels    []kernels.Kernel // see kernels.WithHooks
	opts       *Options
	spaces     map[ep.Problem]enumeratedSpace
}

func newPlanner(b kernels.Backend, opts *Options) *planner {
	all := b.Kernels()
	opts = opts.renamed(all)
	return &planner{machine: b.Machine(), allKernels: all, kernels: kernels.WithHooks(all, opts.Params), opts: opts, spaces: map[ep.Problem]enumeratedSpace{}}
}

// searchedKernels returns the kernels of a problem's op. If --kernel names some of them, it returns only these.
func (pl *planner) searchedKernels(p ep.Problem) []kernels.Kernel {
	all := kernels.For(pl.kernels, p)
	wanted := slices.DeleteFunc(slices.Clone(all), func(k kernels.Kernel) bool { return !slices.Contains(pl.opts.Kernels, k.Name) })
	if len(wanted) == 0 {
		return all
	}
	return wanted
}

func (pl *planner) grids(p ep.Problem) ([]search.Grid, error) {
	wanted := pl.searchedKernels(p)
	if len(wanted) == 0 {
		return nil, kernels.NoKernel(pl.kernels, p)
	}
	if err := equalWork(p, wanted); err != nil {
		return nil, err
	}
	var out []search.Grid
	for _, k := range wanted {
		g, err := pl.grid(k, p)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func equalWork(p ep.Problem, ks []kernels.Kernel) error {
	for _, k := range ks[1:] {
		if a, b := ks[0].Work.Key(p), k.Work.Key(p); a != "" && b != "" && a != b {
			return fmt.Errorf("--kernel: %s (%s) and %s (%s) do different work and cannot be compared; name one of them", ks[0].Name, a, k.Name, b)
		}
	}
	return nil
}

func (pl *planner) grid(k kernels.Kernel, p ep.Problem) (search.Grid, error) {
	g := search.Grid{Kernel: k.Name, Axes: pl.axes(k, p)}
	rules, err := pl.opts.Space.Rules(k.Name, g.Axes, spacefile.FactsOf(pl.machine, p))
	if err != nil {
		return g, err
	}
	g.Rules = append([]search.Rule{pl.legal(k, p), pl.smallEnough(k)}, rules...)
	if p.Precision == ep.Reduced {
		g.Rules = append(g.Rules, reducesPrecision(k, k.DefaultConfig(pl.machine, p)))
	}
	return g, nil
}

func (pl *planner) axes(k kernels.Kernel, p ep.Problem) (out []search.Axis) {
	dflt := k.DefaultConfig(pl.machine, p)
	for _, q := range k.Params {
		values := q.Values
		if q.Name == kernels.ModeParam && k.Split != nil && p.Beside == "" {
			values = []ep.Value{kernels.ModeFused}
		}
		if v := pl.opts.Space.Values(k.Name, q.Name); v != nil {
			values = v
		}
		if v, ok := pl.opts.Params[q.Name]; ok {
			values = v
		}
		if q.Class == kernels.Hook || q.Class == kernels.Precision && p.Precision == ep.Full {
			values = []ep.Value{dflt.Values[q.Name]}
		}
		out = append(out, search.Axis{Name: q.Name, Values: values, Design: q.Design})
	}
	return out
}

// admits reports whether a search may measure a config that is not in the search's space.
func (pl *planner) admits(p ep.Problem, c ep.Config) bool {
	k, err := kernels.Find(pl.kernels, p.Op, c.Kernel)
	if err != nil || k.Check(pl.machine, p, c) != nil || pl.smallEnough(k)(c) != "" || pl.constrained(k, p, c) {
		return false
	}
	dflt := k.DefaultConfig(pl.machine, p)
	return k.Changes(kernels.Hook, dflt, c) == "" && (p.Precision != ep.Full || k.Changes(kernels.Precision, dflt, c) == "")
}

// constrained reports whether the space file removes a config.
func (pl *planner) constrained(k kernels.Kernel, p ep.Problem, c ep.Config) bool {
	if p.Op == ep.Pair || slices.ContainsFunc(pl.spaceFileConfigs(p), func(a ep.Config) bool { return a.Key() == c.Key() }) {
		return false
	}
	axes := pl.axes(k, p)
	for i := range axes {
		axes[i].Values = append(slices.Clone(axes[i].Values), c.Values[axes[i].Name])
	}
	rules, err := pl.opts.Space.Rules(k.Name, axes, spacefile.FactsOf(pl.machine, p))
	return err != nil || slices.ContainsFunc(rules, func(r search.Rule) bool { return r(c) != "" })
}

func reducesPrecision(k kernels.Kernel, dflt ep.Config) search.Rule {
	return func(c ep.Config) string {
		if k.Changes(kernels.Precision, dflt, c) != "" {
			return ""
		}
		return "full precision: another search has these configs"
	}
}

func (pl *planner) legal(k kernels.Kernel, p ep.Problem) search.Rule {
	return func(c ep.Config) string {
		if err := k.Check(pl.machine, p, c); err != nil {
			return "kernel: " + errorField(err.Error())
		}
		return ""
	}
}

// errorField returns the field that an error message names at its beginning. For "sms: align: too large" this is
// "sms.align".
func errorField(msg string) string {
	var out []string
	for part := range strings.SplitSeq(msg, ": ") {
		if strings.ContainsAny(part, " \t") {
			break
		}
		out = append(out, part)
	}
	if len(out) == 0 {
		return "other"
	}
	return strings.Join(out, ".")
}

func (pl *planner) smallEnough(k kernels.Kernel) search.Rule {
	return func(c ep.Config) string {
		if pl.opts.MaxSMs > 0 && k.CostOf(c).SMs > pl.opts.MaxSMs {
			return "--max-sms"
		}
		return ""
	}
}

func (pl *planner) boundedMachine() ep.Machine {
	m := pl.machine
	if pl.opts.MaxSMs > 0 {
		m.SMs = min(m.SMs, pl.opts.MaxSMs)
	}
	return m
}

// pairs joins each dispatch with each combine if a pair kernel accepts both. `first` holds the first pair of each
// kernel. If the kernel can overlap the two launches, `first` also holds this pair with overlapped launches.
func (pl *planner) pairs(p ep.Problem, dispatch, combine []ep.Config) (all, first []ep.Config) {
	p.Op = ep.Pair
	for _, k := range kernels.For(pl.kernels, p) {
		var joined []ep.Config
		for _, d := range dispatch {
			for _, c := range combine {
				if j := ep.Join(d, c); j.Kernel == k.Name && k.Check(pl.machine, p, j) == nil {
					joined = append(joined, j)
				}
			}
		}
		if len(joined) == 0 {
			continue
		}
		first = append(first, joined[0])
		if k.Overlapped != nil {
			if b := k.Overlapped(joined[0]); k.Check(pl.machine, p, b) == nil {
				joined, first = append(joined, b), append(first, b)
			}
		}
		all = append(all, joined...)
	}
	return all, first
}

func (pl *planner) defaultConfig(p ep.Problem) (ep.Config, error) {
	return kernels.Default(pl.kernels, pl.machine, p, pl.opts.MaxSMs)
}

// analytic returns a config with enough SMs to give every message a warp.
func (pl *planner) analytic(p ep.Problem) (c ep.Config, ok bool) {
	if p.Op == ep.Pair {
		return c, false
	}
	c, err := pl.defaultConfig(p)
	if err != nil {
		return c, false
	}
	k, err := kernels.Find(pl.searchedKernels(p), p.Op, c.Kernel)
	if err != nil {
		return c, false
	}
	warps := 1
	for _, q := range k.Params {
		if q.Cost == kernels.ThreadCost {
			warps = max(1, c.Int(q.Name)/32)
		}
	}
	want := (p.Tokens*p.TopK + warps - 1) / warps
	for _, q := range k.Params {
		if q.Cost != kernels.SMCost {
			continue
		}
		best := -1
		for _, v := range q.Values {
			n, _ := v.Int()
			if best < 0 || n > best && best < want || n < best && n >= want {
				best = n
			}
		}
		c, ok = c.With(q.Name, ep.Value(fmt.Sprint(best))), true
	}
	return c, ok && k.Check(pl.machine, p, c) == nil
}

// announce tells a compiling backend which configs the sweep may need. It announces the configs of all searches before
// the first search begins, so that the backend compiles them in parallel.
func (s *sweeper) announce() error {
	b, ok := s.harness.backend.(kernels.Precompiler)
	if !ok {
		return nil
	}
	pl, shapes := s.harness.planner, s.shapes()
	for _, p := range shapes {
		b.Precompile(p, pl.requiredStarts(p))
	}
	for _, p := range shapes {
		space, _, err := pl.enumerate(p)
		if err != nil {
			return err
		}
		b.Precompile(p, compiled(kernels.For(pl.kernels, p), space))
	}
	return nil
}

// shapes returns one problem for each shape, without pairs.
func (s *sweeper) shapes() []ep.Problem {
	var out []ep.Problem
	for _, c := range s.searches {
		same := func(p ep.Problem) bool { return p.Shape() == c.problem.Shape() }
		if c.problem.Op != ep.Pair && !slices.ContainsFunc(out, same) {
			out = append(out, c.problem)
		}
	}
	return out
}

// announcedPoints bounds the points that `compiled` looks at.
const announcedPoints = 20_000

// compiled returns one config for each combination of compile-time values.
func compiled(known []kernels.Kernel, space *search.Space) []ep.Config {
	var out []ep.Config
	seen := map[string]bool{}
	for i := 0; i < space.Len(); i += 1 + space.Len()/announcedPoints {
		c := space.Config(i)
		key := []string{c.Kernel}
		for _, k := range known {
			for _, q := range k.Params {
				if k.Name == c.Kernel && q.Binding == kernels.Compile {
					key = append(key, string(c.Values[q.Name]))
				}
			}
		}
		if binary := strings.Join(key, " "); !seen[binary] {
			seen[binary] = true
			out = append(out, c)
		}
	}
	return out
}
