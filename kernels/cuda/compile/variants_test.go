//go:build nvrtc

package compile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/nvrtc"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

const variantsEnv = "EPBENCH_VARIANTS"

// Every default must compile for each of arches. Tables are measured on sm_90a, so for sm_90a the test compiles
// every pair of values. For the other architectures, it compiles every value.
var arches = []string{"sm_80", "sm_90a", "sm_100a"}

func variantsFor(arch string, space []compiled) []compiled {
	switch {
	case arch != "sm_90a":
		return cover(space, values)
	case os.Getenv(variantsEnv) == "all":
		return space
	}
	return cover(space, pairs)
}

// cover returns the defaults and further variants that together have every feature.
func cover(space []compiled, features func(compiled) []string) []compiled {
	var out, left []compiled
	seen := map[string]bool{}
	take := func(x compiled) {
		out = append(out, x)
		for _, f := range features(x) {
			seen[f] = true
		}
	}
	fresh := func(x compiled) (n int) {
		for _, f := range features(x) {
			n += declare.Bit(!seen[f])
		}
		return n
	}
	for _, x := range space {
		if x.def {
			take(x)
		}
	}
	for left = space; ; {
		left = slices.DeleteFunc(slices.Clone(left), func(x compiled) bool { return fresh(x) == 0 })
		if len(left) == 0 {
			return out
		}
		take(slices.MaxFunc(left, func(a, b compiled) int { return cmp.Compare(fresh(a), fresh(b)) }))
	}
}

// values returns a variant's macro definitions, each after the name of the source.
func values(x compiled) []string {
	var out []string
	for _, d := range x.unit.Defines {
		out = append(out, x.unit.Source+" "+d)
	}
	return out
}

// pairs returns the values of a variant, and each pair of its macro definitions after the name of the source.
func pairs(x compiled) []string {
	out := values(x)
	for i, a := range x.unit.Defines {
		for _, b := range x.unit.Defines[:i] {
			out = append(out, x.unit.Source+" "+a+" "+b)
		}
	}
	return out
}

func TestVariantsCover(t *testing.T) {
	t.Setenv(variantsEnv, "")
	space := defaultSpace(t)
	defaults := func(list []compiled) (n int) {
		for _, x := range list {
			n += declare.Bit(x.def)
		}
		return n
	}
	for arch, features := range map[string]func(compiled) []string{"sm_80": values, "sm_90a": pairs} {
		all := func(list []compiled) map[string]bool {
			out := map[string]bool{}
			for _, x := range list {
				for _, f := range features(x) {
					out[f] = true
				}
			}
			return out
		}
		few := variantsFor(arch, space)
		if !maps.Equal(all(few), all(space)) || defaults(few) != defaults(space) {
			t.Errorf("%s: %d of %d variants leave out a value, a pair or a default", arch, len(few), len(space))
		}
		t.Logf("%s: %d of %d variants", arch, len(few), len(space))
	}
	t.Setenv(variantsEnv, "all")
	if n := len(variantsFor("sm_90a", space)); n != len(space) {
		t.Errorf("%d of %d variants with %s=all", n, len(space), variantsEnv)
	}
}

// defaultSpace returns distinct variants of every kernel.
func defaultSpace(t *testing.T) []compiled {
	t.Helper()
	var out []compiled
	for _, f := range declare.Declarations() {
		formats := ep.DTypes()
		if f.Kernel.Op == ep.Combine {
			formats = formats[:1]
		}
		for _, format := range formats {
			of, err := variants(f, machine, problem(f.Kernel.Op, format))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, of...)
		}
	}
	litmus, err := declare.NewUnit(declare.LitmusSource, problem(ep.Dispatch, ep.BF16), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []sources.Unit{litmus, {Source: "common/align.cuh"}, {Source: sources.BesideSource}, {Source: sources.CopySource}} {
		out = append(out, compiled{unit: v, def: true})
	}
	return out
}

// TestVariants compiles the default space and prints resources and digests. A default config must not
// spill registers.
func TestVariants(t *testing.T) {
	t.Setenv(CacheEnv, "off")
	space := defaultSpace(t)
	for _, arch := range arches {
		t.Run(arch, func(t *testing.T) {
			c, err := NewCompiler(arch)
			if err != nil {
				if os.Getenv(nvrtc.Env) == "" {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			space := variantsFor(arch, space)
			lines := make([]string, len(space))
			var wg sync.WaitGroup
			slots := make(chan struct{}, runtime.NumCPU())
			for i, x := range space {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					lines[i] = compileOne(t, c, x)
				})
			}
			wg.Wait()
			t.Logf("%d variants\n%s", len(space), strings.Join(lines, ""))
		})
	}
}

// compileOne returns a line for each kernel: resources and digest.
func compileOne(t *testing.T, c *Compiler, x compiled) string {
	cubin, log, err := c.build(x.unit)
	if err != nil {
		t.Errorf("%s %s: %v", x.unit.Source, x.config.Key(), err)
		return ""
	}
	uses, err := parseUsage(log)
	if err != nil {
		t.Errorf("%s: %v", x.unit.Source, err)
		return ""
	}
	var out strings.Builder
	for _, u := range uses {
		mark := ""
		if x.def {
			mark = " default"
			if u.spills() {
				t.Errorf("%s spills %d bytes at default parameters %s", u.Entry, u.SpillStore+u.SpillLoad, x.config.Key())
			}
		}
		fmt.Fprintf(&out, "%-22s %3d registers, %4d bytes spilled, %4d stack, binary %.6x%s  %s\n",
			u.Entry, u.Registers, u.SpillStore+u.SpillLoad, u.Stack, sha256.Sum256(cubin), mark, strings.Join(x.unit.Defines, " "))
	}
	return out.String()
}

func TestCompileErrors(t *testing.T) {
	c, err := NewCompiler("sm_90a")
	if err != nil {
		t.Skip(err)
	}
	_, err = c.Compile(sources.Unit{Source: "common/expert.cuh", Defines: []string{"EP_HIDDEN=oops"}})
	if err == nil || !strings.Contains(err.Error(), "error") {
		t.Errorf("a source that does not compile gave %v", err)
	}
	if _, err := c.Compile(sources.Unit{Source: "no/such.cuh"}); err == nil {
		t.Error("Compile gave no error for a source that does not exist")
	}
}

// TestCompileCache: the cache returns the binary of a compiled unit. It does not return an empty file.
func TestCompileCache(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	c, err := NewCompiler("sm_90a")
	if err != nil {
		t.Skip(err)
	}
	v := sources.Unit{Source: "common/align.cuh"}
	first, err := c.Compile(v)
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.Hash(c.arch, "nvrtc "+c.library.Version())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.load(key), first) {
		t.Error("the cache does not hold the compiled binary")
	}
	if err := os.Truncate(c.cache+"/"+key+".cubin", 0); err != nil {
		t.Fatal(err)
	}
	if c.load(key) != nil {
		t.Error("the cache returned an empty binary")
	}
}

// TestCompileAhead: a unit is compiled once. Close drops waiting units.
func TestCompileAhead(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	c, err := NewCompiler("sm_90a")
	if err != nil {
		t.Skip(err)
	}
	q := NewQueue(c)
	q.slots = make(chan struct{}, 1)
	v := sources.Unit{Source: "common/align.cuh"}
	q.Add(v)
	q.Add(v)
	q.running.Wait()
	key, err := v.Hash(c.arch, "nvrtc "+c.library.Version())
	if err != nil {
		t.Fatal(err)
	}
	if b := c.load(key); b == nil || len(q.seen) != 1 || len(q.slots) != 0 {
		t.Errorf("the cached binary has %d bytes, %d units were added, %d still compile", len(b), len(q.seen), len(q.slots))
	}
	q.slots <- struct{}{}
	dropped := sources.Unit{Source: declare.LitmusSource}
	q.Add(dropped)
	q.closed.Store(true)
	<-q.slots
	q.Close()
	if key, err := dropped.Hash(c.arch, "nvrtc "+c.library.Version()); err != nil {
		t.Error(err)
	} else if c.load(key) != nil {
		t.Error("Close did not drop the unit that waited for a slot")
	}
}
