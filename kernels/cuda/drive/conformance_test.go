//go:build cuda

package drive

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/kernelstest"
	"github.com/epbench/epbench/tune/ep"
)

// opener returns a function that opens backends with the event clock. On the chain clock, noise may exceed
// the time of a short call.
func opener(o Options) func() (kernels.Backend, error) {
	o.Clock = clockEvent
	return func() (kernels.Backend, error) { return Open(o) }
}

func TestConformance(t *testing.T) {
	kernelstest.TestBackend(t, opener(Options{}), kernelstest.Options{Mode: ep.Graph})
}

func TestLoopback(t *testing.T) {
	b, err := Open(Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	axes := conform.AxesFor(b.Machine(), b.Kernels())
	b.Close()
	axes.Ranks, axes.Local = []int{1, 2, 4, 8}, []int{1, 2, 32}
	kernelstest.TestBackend(t, opener(Options{Loopback: true}), kernelstest.Options{Mode: ep.Graph, Axes: &axes})
}

func smallAxes() *conform.Axes {
	layouts := conform.AxesFor(ep.Machine{}, declare.Kernels()).Layouts
	return &conform.Axes{
		Ops: ep.RowOps(), DTypes: ep.DTypes(),
		Ranks: []int{1, 2}, Local: []int{1, 3}, TopK: []int{1, 4}, Hidden: []int{256, 512},
		Tokens: []int{0, 1, 5}, Capacity: 5, Routings: []string{"uniform", "ragged"}, Layouts: layouts,
	}
}

// TestSanitize runs few configs: memcheck is a hundred times slower.
func TestSanitize(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		t.Run(fmt.Sprint(ranks, " ranks"), func(t *testing.T) {
			axes := smallAxes()
			axes.Ranks = []int{ranks}
			kernelstest.TestBackend(t, opener(Options{Loopback: true, Deadline: time.Minute}),
				kernelstest.Options{Mode: ep.Graph, Axes: axes, Configs: 6})
		})
	}
}

const racedSMs = 16

// TestRaces runs each code path once under racecheck, in the smallest legal blocks.
func TestRaces(t *testing.T) {
	for _, p := range kernelstest.Part(t, racedProblems()) {
		b, s := openSession(t, Options{Loopback: true, Deadline: time.Minute, sms: racedSMs}, p)
		var all []ep.Config
		for _, k := range kernels.For(b.Kernels(), p) {
			all = append(all, paths(b, k, s.problem)...)
		}
		compileAll(b, s.problem, all)
		proveOnce(t, s, all)
	}
}

func racedProblems() []ep.Problem {
	var all []ep.Problem
	for _, of := range []struct {
		op    ep.Op
		dtype ep.DType
		ranks int
	}{
		{ep.Dispatch, ep.BF16, 1}, {ep.Dispatch, ep.FP8, 2}, {ep.Dispatch, ep.NVFP4, 2},
		{ep.Combine, ep.BF16, 1}, {ep.Combine, ep.BF16, 2},
		{ep.Activation, ep.FP8, 1}, {ep.Activation, ep.NVFP4, 1},
	} {
		p := drillProblem(of.op, ep.Graph, of.ranks)
		p.Dispatch = of.dtype
		for _, p.Layout = range drilledLayouts() {
			if p.Validate() == nil { // 4-bit dtypes have layout expert only
				all = append(all, p)
			}
		}
	}
	return all
}

func compileAll(b *Backend, p ep.Problem, configs []ep.Config) {
	var units []sources.Unit
	for _, c := range configs {
		if of, err := candidateUnits(b.machine, p, c); err == nil {
			units = append(units, of...)
		}
	}
	_, _ = b.node.compiler.CompileAll(units...)
}

// sizes lists parameters that do not change a block's code path.
var sizes = []string{"sms", "wait_sms", "count_sms", "threads", "tile_tokens", "chunk_bytes", "pause", "rows", "rotate"}

// fewestThreads gives each kernel of c the fewest legal threads.
func fewestThreads(b *Backend, k kernels.Kernel, p ep.Problem, c ep.Config) ep.Config {
	for _, name := range c.Names() {
		if name != "threads" && !strings.HasSuffix(name, ".threads") {
			continue
		}
		for _, threads := range []ep.Value{"64", "128", "256", "512"} {
			if few := c.With(name, threads); k.Check(b.Machine(), p, few) == nil {
				c = few
				break
			}
		}
	}
	return c
}

// paths returns a kernel's default, and a config for every further value of every parameter outside `sizes`.
func paths(b *Backend, k kernels.Kernel, p ep.Problem) []ep.Config {
	base := fewestThreads(b, k, p, k.DefaultConfig(b.Machine(), p))
	out := []ep.Config{base}
	for _, q := range k.Params {
		for _, v := range q.Values {
			if v != base.Values[q.Name] && !slices.Contains(sizes, q.Name) {
				out = append(out, base.With(q.Name, v))
			}
		}
	}
	return slices.DeleteFunc(out, func(c ep.Config) bool { return k.Check(b.Machine(), p, c) != nil })
}

func proveOnce(t *testing.T, s *session, configs []ep.Config) {
	t.Helper()
	for _, c := range configs {
		begin := time.Now()
		if err := s.Prepare(t.Context(), c); err != nil {
			t.Errorf("%s: %v", c.Key(), err)
			continue
		}
		v, err := s.Verify(t.Context(), c)
		if err != nil || !v.OK() {
			t.Errorf("%s: result %+v, error %v", c.Key(), v, err)
		}
		t.Logf("%s, %d ranks, %s: %.1f s", s.problem.Dispatch, s.problem.Ranks, c.Key(), time.Since(begin).Seconds())
	}
}

// drilledLayouts returns the first layout of each dispatch kernel.
func drilledLayouts() (out []ep.Layout) {
	for _, k := range kernels.Of(declare.Kernels(), ep.Dispatch) {
		if l := append(k.Layouts, ep.LayoutExpert)[0]; !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}
