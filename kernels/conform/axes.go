package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Axes holds the values from which verify makes its cases.
type Axes struct {
	Ops      []ep.Op
	DTypes   []ep.DType
	Ranks    []int
	Nodes    int   // hosts; 0 means 1
	Local    []int // numbers of experts on one rank
	TopK     []int
	Hidden   []int
	Tokens   []int    // on the fullest rank
	Routings []string // for workloads.Parse
	Layouts  []ep.Layout
	Capacity int // tokens that buffers hold
}

// AxesFor returns the axes for a machine and its kernels.
func AxesFor(m ep.Machine, all []kernels.Kernel) Axes {
	a := Axes{
		Ops:    ep.RowOps(),
		DTypes: ep.DTypes(),
		Ranks:  []int{1, 2, 3, 4, 8, 16},
		Local:  []int{1, 2, 7, 32},
		TopK:   []int{1, 2, 4, 8, 16},
		Hidden: []int{256, 512, 2048, 2880, 4096, 7168},
		Tokens: []int{1, 24},
		Routings: []string{
			"uniform", "balanced", "zipf:1.0", "hotrank:2", "local", "remote", "one", "masked:0.3",
			"ragged", "ragged:1+masked:0.5", "grouped", "khot", "all2one", "roundrobin",
		},
		Capacity: 24,
	}
	a.Layouts = slices.DeleteFunc(ep.Layouts(), func(l ep.Layout) bool {
		return len(kernels.For(all, ep.Problem{Op: ep.Dispatch, Layout: l})) == 0
	})
	if m.GPUs > 0 {
		a.Ranks = nil
		for n := 1; n <= m.GPUs; n *= 2 {
			a.Ranks = append(a.Ranks, n)
		}
		a.Local = []int{1, 2, 32, 48, 64, 112, 128}
	}
	return a
}

// Tags returns the tag "axis=value" for every value of every axis, then the tags of special cases.
func (a Axes) Tags() []string {
	var out []string
	for _, x := range a.list() {
		for _, v := range x.values {
			out = append(out, x.name+"="+v)
		}
	}
	return append(out, tagEmpty, tagEndurance)
}

type axis struct {
	name   string
	values []string
	set    func(c *Case, i int)
}

func (a Axes) list() []axis {
	return []axis{
		axisOf("op", a.Ops, func(c *Case, v ep.Op) { c.Problem.Op = v }),
		axisOf("dtype", a.DTypes, func(c *Case, v ep.DType) { c.Problem.Dispatch = v }),
		axisOf("ranks", a.Ranks, func(c *Case, v int) { c.Problem.Ranks = v }),
		axisOf("local-experts", a.Local, func(c *Case, v int) { c.Problem.Experts = v * c.Problem.Ranks }),
		axisOf("topk", a.TopK, func(c *Case, v int) { c.Problem.TopK = v }),
		axisOf("hidden", a.Hidden, func(c *Case, v int) { c.Problem.Hidden = v }),
		axisOf("tokens", a.Tokens, func(c *Case, v int) { c.Problem.Tokens = v }),
		axisOf("routing", a.Routings, func(c *Case, v string) { c.Routing = v }),
		axisOf("shared-expert", []bool{false, true}, func(c *Case, v bool) { c.Problem.SharedExpert = v }),
		axisOf("layout", a.Layouts, func(c *Case, v ep.Layout) { c.Problem.Layout = v }),
		axisOf("skip-a2a", []bool{false, true}, func(c *Case, v bool) { c.Problem.SkipA2A = v }),
	}
}

func axisOf[T any](name string, values []T, set func(*Case, T)) axis {
	a := axis{name: name, set: func(c *Case, i int) { set(c, values[i]) }}
	for _, v := range values {
		a.values = append(a.values, fmt.Sprint(v))
	}
	return a
}

func build(axes []axis, point []int, base ep.Problem) Case {
	c := Case{Problem: base, Seed: 1}
	for i, a := range axes {
		a.set(&c, point[i])
		c.Tags = append(c.Tags, a.name+"="+a.values[point[i]])
	}
	c.Name = strings.Join(c.Tags, " ")
	return c
}

func feasible(c Case) bool {
	if c.Problem.Validate() != nil {
		return false
	}
	_, err := c.Workload()
	return err == nil
}

func (c Case) Workload() (*workloads.Workload, error) {
	return workloads.Draw(c.Routing, c.Problem, c.Seed)
}
