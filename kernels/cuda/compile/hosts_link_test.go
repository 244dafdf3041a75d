//go:build nvrtc

package compile

import (
	"os"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

func hostsProblem(d ep.DType) ep.Problem {
	p := problem(ep.Pair, d)
	p.Ranks, p.Nodes, p.Experts = 16, 2, 256
	return p
}

// TestLinkHosts compiles and links the kernels that cross hosts.
func TestLinkHosts(t *testing.T) {
	if _, err := shmem.Folder(); err != nil {
		if os.Getenv(shmem.Env) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for _, arch := range arches {
		c, err := NewCompiler(arch)
		if err != nil {
			t.Skip(err)
		}
		for _, f := range declare.HostDeclarations() {
			for _, config := range eachRoute(declare.Fitted(f.Kernel, machine, ep.Problem{})) {
				p := hostsProblem(ep.FP8)
				p.Op = f.Kernel.Op
				if err := f.Check(machine, p, config); err != nil {
					t.Fatal(err)
				}
				u, err := f.Unit(p, config)
				if err != nil {
					t.Fatal(err)
				}
				linkOne(t, c, u)
			}
		}
		support, _ := declare.SupportUnits(2) // hosts/calls.cuh, which includes hosts/align.cuh
		linkOne(t, c, support)
	}
}

func eachRoute(c ep.Config) []ep.Config {
	if c.Str("route") == "" {
		return []ep.Config{c}
	}
	return []ep.Config{c, c.With("route", "rail")}
}

// linkOne compiles and links one unit, and fails if a kernel spills registers.
func linkOne(t *testing.T, c *Compiler, u sources.Unit) {
	t.Helper()
	cubin, log, err := c.build(u)
	if err != nil {
		t.Errorf("%s %s: %v", c.arch, u.Key(), err)
		return
	}
	uses, err := parseUsage(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range uses {
		t.Logf("%s %-24s %3d registers, binary of %d bytes", c.arch, use.Entry, use.Registers, len(cubin))
		if use.spills() {
			t.Errorf("%s %s spills", c.arch, use.Entry)
		}
	}
}
