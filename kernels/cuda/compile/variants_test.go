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
	"github.com/epbench/epbench/tune/ep"
)

// arches lists the architectures for which every kernel must compile. Every variant is compiled for
// sm_90a, because tables are measured on it. To compile every variant for the other architectures
// would take ten minutes. For them the test compiles every default, and a few variants that together
// have every parameter value of every source.
var arches = []string{"sm_80", "sm_90a", "sm_100a"}

// variantsFor returns the variants of a space that are compiled for an architecture. For other
// architectures than sm_90a these are the defaults, and then repeatedly the variant with the most
// defines that no variant of the same source has so far.
func variantsFor(arch string, space []compiled) []compiled {
	if arch == "sm_90a" {
		return space
	}
	var out []compiled
	seen := map[string]bool{}
	take := func(x compiled) {
		out = append(out, x)
		for _, v := range values(x) {
			seen[v] = true
		}
	}
	fresh := func(x compiled) (n int) {
		for _, v := range values(x) {
			n += declare.Bit(!seen[v])
		}
		return n
	}
	for _, x := range space {
		if x.def {
			take(x)
		}
	}
	for {
		next := slices.MaxFunc(space, func(a, b compiled) int { return cmp.Compare(fresh(a), fresh(b)) })
		if fresh(next) == 0 {
			return out
		}
		take(next)
	}
}

// values lists the defines of a variant, each with its source.
func values(x compiled) []string {
	var out []string
	for _, d := range x.unit.Defines {
		out = append(out, x.unit.Source+" "+d)
	}
	return out
}

// TestVariantsCover: the few variants that are compiled for sm_80 have every default and every
// parameter value.
func TestVariantsCover(t *testing.T) {
	space := defaultSpace(t)
	few := variantsFor("sm_80", space)
	all := func(list []compiled) map[string]bool {
		out := map[string]bool{}
		for _, x := range list {
			for _, v := range values(x) {
				out[v] = true
			}
		}
		return out
	}
	defaults := func(list []compiled) (n int) {
		for _, x := range list {
			n += declare.Bit(x.def)
		}
		return n
	}
	if !maps.Equal(all(few), all(space)) || defaults(few) != defaults(space) {
		t.Errorf("%d of %d variants leave out a value or a default", len(few), len(space))
	}
	t.Logf("%d of %d variants have every value", len(few), len(space))
}

// defaultSpace lists each distinct variant of every kernel. Combine does not depend on the
// dtype in which tokens were sent, so one dtype is enough.
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
	for _, v := range []declare.Unit{litmus, {Source: "common/align.cuh"}, {Source: declare.BesideSource}, {Source: declare.CopySource}} {
		out = append(out, compiled{unit: v, def: true})
	}
	return out
}

// TestVariants compiles the default space without a GPU. It prints the resources that each
// kernel takes and a digest of its binary, and fails if a default spills.
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

// compileOne compiles one variant. It returns a line for each kernel: its resources and the digest of
// the binary.
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

// TestCompileErrors: the error of Compile contains the compiler's message.
func TestCompileErrors(t *testing.T) {
	c, err := NewCompiler("sm_90a")
	if err != nil {
		t.Skip(err)
	}
	_, err = c.Compile(declare.Unit{Source: "common/expert.cuh", Defines: []string{"EP_HIDDEN=oops"}})
	if err == nil || !strings.Contains(err.Error(), "error") {
		t.Errorf("a source that does not compile gave %v", err)
	}
	if _, err := c.Compile(declare.Unit{Source: "no/such.cuh"}); err == nil {
		t.Error("Compile gave no error for a source that does not exist")
	}
}

// TestCompileCache: a second compiler finds the binaries that the first one stored, and
// ignores a truncated entry.
func TestCompileCache(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	c, err := NewCompiler("sm_90a")
	if err != nil {
		t.Skip(err)
	}
	v := declare.Unit{Source: "common/align.cuh"}
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

// TestCompileAhead: a unit that is added to the queue twice is compiled once, and its binary is in the
// cache. Close drops units whose compilation has not begun.
func TestCompileAhead(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	c, err := NewCompiler("sm_90a")
	if err != nil {
		t.Skip(err)
	}
	q := NewQueue(c)
	q.slots = make(chan struct{}, 1)
	v := declare.Unit{Source: "common/align.cuh"}
	q.Add(v)
	q.Add(v)
	q.running.Wait()
	key, err := v.Hash(c.arch, "nvrtc "+c.library.Version())
	if err != nil {
		t.Fatal(err)
	}
	if b := c.load(key); b == nil || len(q.seen) != 1 || len(q.slots) != 0 {
		t.Errorf("%d bytes in the cache; %d asked for, %d compiling", len(b), len(q.seen), len(q.slots))
	}
	q.slots <- struct{}{} // the next one has to wait
	dropped := declare.Unit{Source: declare.LitmusSource}
	q.Add(dropped)
	q.closed.Store(true)
	<-q.slots
	q.Close()
	if key, err := dropped.Hash(c.arch, "nvrtc "+c.library.Version()); err != nil {
		t.Error(err)
	} else if c.load(key) != nil {
		t.Error("the queue compiled a unit that had not begun when the queue was closed")
	}
}
