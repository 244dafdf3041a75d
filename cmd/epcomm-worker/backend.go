//go:build cuda

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/compile"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/drive"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// backend runs calls through the library epcomm, with one process for each rank. The configs come from its pack, a file
// with compiled kernels. If there is no pack, each candidate gets a pack of its own.
type backend struct {
	machine  ep.Machine
	pack     *pack.Pack
	path     string
	nodes    int
	deadline time.Duration
	compiler *compile.Compiler
	dir      string         // folder for the packs of candidates
	ranks    *ranks         // the processes of the last session
	early    *compile.Queue // compiles later candidates
}

func openBackend(path string, nodes int, deadline time.Duration) (*backend, error) {
	b := &backend{path: path, nodes: nodes, deadline: deadline}
	var err error
	if path != "" {
		if b.pack, err = pack.ReadFile(path); err != nil {
			return nil, err
		}
		b.nodes = max(b.pack.Shape().Nodes, 1)
	}
	gpus, err := drive.Open(drive.Options{})
	if err != nil {
		return nil, err
	}
	b.machine = gpus.Machine()
	if b.nodes > 1 { // the names that epbench-cuda rank --split uses
		b.machine.Backend, b.machine.Link = "cuda-hosts", b.machine.Link+"+split"
	}
	if err := gpus.Close(); err != nil {
		return nil, err
	}
	arch, err := sources.ArchName(b.machine)
	if err != nil {
		return nil, err
	}
	if b.compiler, err = compile.NewCompiler(arch); err != nil {
		return nil, err
	}
	b.early = compile.NewQueue(b.compiler)
	b.dir, err = os.MkdirTemp("", "epcomm-worker-")
	return b, err
}

func (b *backend) Machine() ep.Machine { return b.machine }

// ABI implements kernels.Versioned.
func (b *backend) ABI() ep.ABI {
	if b.pack != nil {
		return ep.ABI(b.pack.Digest) // the pack decides which configs are launched
	}
	return declare.ABIOver(b.nodes)
}

func (b *backend) Kernels() []kernels.Kernel {
	if b.pack == nil {
		return slices.DeleteFunc(declare.KernelsOver(b.nodes, b.machine), func(k kernels.Kernel) bool {
			return k.Op == ep.Activation // epcomm has no call for it
		})
	}
	served := []ep.Layout{b.pack.Shape().Layout}
	doc := "Launches the configs of pack " + b.pack.Digest[:12] + " through epcomm."
	return []kernels.Kernel{
		{Name: "epcomm", Op: ep.Dispatch, Doc: doc, Check: b.fits, Layouts: served},
		{Name: "epcomm", Op: ep.Combine, Doc: doc, Check: b.fits, Layouts: served, Params: precisionOf(b.pack)},
	}
}

// precisionOf returns the kernel parameter `precision`, or nil if the pack has no rows for reduced precision.
func precisionOf(p *pack.Pack) []kernels.Param {
	if !p.Reduced {
		return nil
	}
	return []kernels.Param{{
		Name: "precision", Doc: "use the pack's rows of full or of reduced precision", Values: []ep.Value{"full", "reduced"},
		Default: "full", Binding: kernels.Setup, Class: kernels.Precision,
	}}
}

// Conditions implements kernels.Conditioned.
func (b *backend) Conditions(string) []kernels.Condition {
	return []kernels.Condition{{Expr: fmt.Sprintf("problem.nodes == %d", b.nodes), Reason: "nodes: differs from --nodes of epcomm-worker or from the nodes of its pack"}}
}

func (b *backend) fits(_ ep.Machine, p ep.Problem, _ ep.Config) error {
	q := b.pack.Shape()
	for _, f := range []struct {
		name       string
		have, want int
	}{
		{"ranks", q.Ranks, p.Ranks}, {"nodes", b.nodes, p.Nodes}, {"hidden", q.Hidden, p.Hidden}, {"experts", q.Experts, p.Experts}, {"topk", q.TopK, p.TopK},
	} {
		if f.have != f.want {
			return fmt.Errorf("%s: the pack is for %d, not %d", f.name, f.have, f.want)
		}
	}
	if p.Tokens > q.MaxTokens {
		return fmt.Errorf("tokens: %d is more than the pack's %d", p.Tokens, q.MaxTokens)
	}
	if p.SharedExpert != q.SharedExpert || p.SkipA2A != q.SkipA2A {
		return fmt.Errorf("shared-expert, skip-a2a: the pack was made with other values")
	}
	if !slices.Contains(b.pack.DTypes, p.Dispatch) {
		return fmt.Errorf("dtype: the pack has no %s", p.Dispatch)
	}
	return nil
}

// Precompile implements kernels.Precompiler. It fills the compiler's cache, which Prepare reads.
func (b *backend) Precompile(p ep.Problem, configs []ep.Config) {
	if b.pack != nil {
		return
	}
	s := &session{backend: b, workload: &workloads.Workload{Problem: p}}
	for _, c := range configs {
		d, k, err := s.halves(c)
		if err != nil {
			continue // Prepare returns the error
		}
		for op, half := range map[ep.Op]ep.Config{ep.Dispatch: d, ep.Combine: k} {
			q := p
			q.Op = op
			if call, err := declare.DescribeCall(b.machine, q, half); err == nil {
				b.early.Add(call.Unit)
			}
		}
	}
}

func (b *backend) Open(_ context.Context, w *workloads.Workload) (kernels.Session, error) {
	if w.Problem.Ranks > b.machine.GPUs {
		return nil, fmt.Errorf("ranks: %d ranks need %d GPUs, this machine has %d", w.Problem.Ranks, w.Problem.Ranks, b.machine.GPUs)
	}
	if w.Problem.Nodes != b.nodes {
		return nil, fmt.Errorf("nodes: %d, but this worker serves %d; start it with --nodes %d", w.Problem.Nodes, b.nodes, w.Problem.Nodes)
	}
	s := &session{backend: b, workload: w, packs: map[string]string{}}
	largest := *w // epcomm lays out rows as for its largest token count, and so must the oracle
	largest.Problem = s.capable()
	s.oracle = ref.New(&largest, 1)
	s.outputs = ref.NewRemote(s.oracle, dtype.MaxRows(largest.Problem), s.read)
	return s, nil
}

// startRanks returns processes for n ranks. It reuses running processes if their number is n.
func (b *backend) startRanks(n int) (*ranks, error) {
	if b.ranks != nil && len(b.ranks.all) == n {
		return b.ranks, nil
	}
	b.drop()
	var err error
	b.ranks, err = startRanks(n)
	if err != nil {
		b.ranks = nil
	}
	return b.ranks, err
}

func (b *backend) drop() {
	if b.ranks != nil {
		b.ranks.end()
		b.ranks = nil
	}
}

func (b *backend) Close() error {
	b.early.Close()
	b.drop()
	return os.RemoveAll(b.dir)
}
