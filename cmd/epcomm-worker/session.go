//go:build cuda

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// session runs the candidates of one workload, one at a time.
type session struct {
	backend  *backend
	workload *workloads.Workload
	oracle   *ref.Oracle
	outputs  *ref.Remote
	packs    map[string]string // path of a pack, by the candidate's key
	ranks    *ranks            // processes with this session's inputs
	loaded   string            // key of the loaded candidate, or ""
}

func (s *session) problem() ep.Problem { return s.workload.Problem }

func (s *session) Prepare(_ context.Context, c ep.Config) error {
	if s.packs[c.Key()] != "" {
		return nil
	}
	if s.backend.pack != nil {
		s.packs[c.Key()] = s.backend.path
		return nil
	}
	d, k, err := s.halves(c)
	if err != nil {
		return kernels.Failf(ep.Illegal, "%v", err)
	}
	p, err := pack.Build(pack.Request{
		Problem: s.problem(), DTypes: []ep.DType{s.problem().Dispatch}, Raw: declare.TakesCast(d), Machine: s.backend.machine, Only: &[2]ep.Config{d, k},
	}, func(_ string, units []sources.Unit) (pack.Compiled, error) {
		return pack.CompileOn(s.backend.compiler, units)
	})
	if err != nil {
		return kernels.Failf(ep.CompileFailed, "%v", err)
	}
	path := filepath.Join(s.backend.dir, p.Digest+".pack")
	if err := os.WriteFile(path, p.Data, 0o600); err != nil {
		return err
	}
	s.packs[c.Key()] = path
	return nil
}

func (s *session) halves(c ep.Config) (d, k ep.Config, err error) {
	m, p := s.backend.machine, s.problem()
	switch p.Op {
	case ep.Pair:
		return ep.Split(c)
	case ep.Combine:
		d, err = declare.DispatchBefore(m, p, c)
		return d, c, err
	}
	p.Op = ep.Combine
	for _, kernel := range kernels.For(declare.KernelsOver(p.Nodes, m), p) {
		for _, k = range kernel.StartsWithin(m, p, 0) {
			if kernel.Check(m, p, k) == nil && kernel.CheckPair(c, k) == nil {
				return c, k, nil
			}
		}
	}
	return c, k, fmt.Errorf("no combine config can follow %s", c.Key())
}

// hold loads a candidate on all ranks, unless they already have it.
func (s *session) hold(c ep.Config) error {
	if err := s.Prepare(context.Background(), c); err != nil {
		return err
	}
	r, err := s.backend.startRanks(s.problem().Ranks)
	if err != nil {
		return err
	}
	if r != s.ranks {
		if err := s.upload(r); err != nil {
			return err
		}
		s.ranks, s.loaded = r, ""
	}
	if s.loaded == c.Key() {
		return nil
	}
	s.loaded = ""
	_, err = r.ask(func(int) request {
		return request{Load: &load{Pack: s.packs[c.Key()], Nodes: s.backend.nodes, Deadline: int64(s.backend.deadline), Reduced: s.reduced(c)}}
	})
	if err == nil {
		s.loaded = c.Key()
	}
	return err
}

func (s *session) upload(r *ranks) error {
	w, p := s.workload, s.problem()
	u, err := declare.ExpertUnit(p)
	if err != nil {
		return err
	}
	expert, err := s.backend.compiler.CompileAll(u)
	if err != nil {
		return err
	}
	_, err = r.ask(func(rank int) request {
		of := w.Ranks[w.BatchRank(rank)]
		in := &inputs{
			Tokens: of.Tokens, Fullest: max(p.Tokens, 1), Hidden: p.Hidden, TopK: p.TopK, Capacity: s.capacity(), Groups: dtype.Groups(p), Index: declare.IndexOf(s.capable()),
			DType: 1 + slices.Index(ep.DTypes(), p.Dispatch), Routing: 1 + ep.Classify(w.TotalCounts(), p.Ranks).Index(), Purpose: slices.Index([]ep.Op{ep.Pair, ep.Dispatch, ep.Combine}, p.Op),
			SkipA2A: p.SkipA2A, IDs: of.Experts, Weights: of.Weights, Bias: declare.Bias(p.Hidden), Scale: declare.EpilogueScale, Expert: expert[0],
			X: w.Tokens(rank),
		}
		if declare.MayCast(p) {
			in.Cast, in.CastScales = s.oracle.Cast(rank)
		}
		return request{Inputs: in}
	})
	return err
}

func (s *session) capable() ep.Problem {
	p := s.problem()
	p.MaxTokens = s.capacity()
	return p
}

// capacity returns the largest number of tokens of a rank that fit into memory.
func (s *session) capacity() int {
	if p := s.backend.pack; p != nil {
		return p.Shape().MaxTokens
	}
	return s.problem().MaxTokens
}

func (s *session) Run(_ context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	if err := s.hold(c); err != nil {
		return kernels.Rounds{}, err
	}
	fold := max(spec.Fold, 1)
	s.outputs.Forget()
	all, err := s.ranks.ask(func(int) request {
		return request{Run: &run{Op: string(s.problem().Op), Rounds: spec.Rounds, Fold: fold}}
	})
	if err != nil {
		return kernels.Rounds{}, s.lost(err)
	}
	out := kernels.Rounds{Clock: "chain", Fold: fold, Seconds: make([][]float64, spec.Rounds)}
	for i := range out.Seconds {
		for _, a := range all {
			out.Seconds[i] = append(out.Seconds[i], max(a.Times[i], kernels.LeastReading))
		}
	}
	return out, nil
}

// lost forgets the loaded candidate: after a failure its memory may be inconsistent.
func (s *session) lost(err error) error {
	s.loaded = ""
	return err
}

func (s *session) Close() error { return nil }
