//go:build cuda

package drive

// #include "ep_shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// session runs the candidates of one workload.
type session struct {
	backend    *Backend
	ranks      *rankSet
	workload   *workloads.Workload
	problem    ep.Problem
	tokens     [][]uint16     // by rank; input rows of an activation
	copies     []cu.DevicePtr // GPU address of a copy of the tokens, by rank; 0 for none
	oracle     *ref.Oracle
	cast       []castTokens // FP8 by rank; nil until needed
	outputs    *ref.Remote
	states     []declare.State // allocated states
	candidates map[string]*candidate
	expert     []cu.Function
	beside     *products    // matrix product, or nil
	activation *activation  // nil for other ops
	again      int          // runs that were repeated since Run last reported them in Rounds.Notes
	checking   ep.CheckTime // host time of the latest verification

	mu      sync.Mutex
	running *program
}

func newSession(b *Backend, w *workloads.Workload) (*session, error) {
	r, err := newRankSet(b.node, w.Problem.Ranks, b.options.Deadline)
	if err != nil {
		return nil, err
	}
	return sessionOn(r, b, w)
}

func sessionOn(r *rankSet, b *Backend, w *workloads.Workload) (*session, error) {
	s := &session{
		backend: b, ranks: r, workload: w, problem: w.Problem, oracle: ref.New(w, b.options.InputScale),
		candidates: map[string]*candidate{},
	}
	s.activation = openActivation(w, s.oracle)
	for i := range r.local {
		rank := r.rankOf(i)
		if s.activation != nil {
			s.tokens = append(s.tokens, s.activation.gates(w, rank))
			continue
		}
		if from := w.BatchRank(rank); from < rank && r.world == nil {
			s.tokens = append(s.tokens, s.tokens[from])
		} else {
			s.tokens = append(s.tokens, w.Tokens(rank))
		}
	}
	s.outputs = ref.NewRemote(s.oracle, dtype.MaxRows(w.Problem), s.read)
	r.refill = s.upload
	if err := s.openProducts(); err != nil {
		r.close()
		return nil, err
	}
	return s, nil
}

func (s *session) Close() error {
	for _, c := range s.candidates {
		c.drop()
	}
	s.beside.close()
	s.freeCopies()
	s.ranks.close()
	return nil
}

func (c *candidate) drop() {
	for _, p := range c.programs {
		p.free()
	}
	clear(c.programs)
}

func (s *session) Prepare(_ context.Context, c ep.Config) error {
	if s.candidates[c.Key()] != nil {
		return nil
	}
	k, err := newCandidate(s.backend.machine, s.problem, c)
	if err != nil {
		return asFailure(ep.Illegal, err)
	}
	if err := s.addState(k.state()); err != nil {
		return err
	}
	if s.beside.isStep() {
		if err := s.addState(k.state().Of(1)); err != nil {
			return err
		}
	}
	if err := k.load(s.ranks); err != nil {
		return asFailure(ep.LaunchFailed, err)
	}
	if s.expert == nil && k.calls[ep.Combine] != nil {
		if s.expert, err = s.loadExpert(); err != nil {
			return asFailure(ep.LaunchFailed, err)
		}
	}
	if k.takesCast() && s.cast == nil {
		s.cast = s.castAll()
	}
	s.candidates[c.Key()] = k
	return nil
}

func (s *session) loadExpert() ([]cu.Function, error) {
	u, err := declare.NewUnit(declare.ExpertSource(s.problem), s.problem, nil)
	if err != nil {
		return nil, err
	}
	m, err := s.ranks.node.load(u)
	if err != nil {
		return nil, err
	}
	return m.function("ep_expert")
}

func (s *session) checkFits(c ep.Config) error {
	k, err := newCandidate(s.backend.machine, s.problem, c)
	if err != nil {
		return asFailure(ep.Illegal, err)
	}
	if s.hasState(k.state()) {
		return nil
	}
	return s.ranks.checkMemory(declare.NewHeap(s.partsWith(k.state())))
}

func (s *session) hasState(of declare.State) bool {
	return slices.ContainsFunc(s.states, func(have declare.State) bool { return have.Name == of.Name })
}

func (s *session) partsWith(of declare.State) []declare.Region {
	parts := append(s.ranks.parts(), s.parts()...)
	for _, st := range append(s.states[:len(s.states):len(s.states)], of) {
		parts = append(parts, declare.StateParts(st, s.problem)...)
	}
	return parts
}

// addState makes a new heap with a further state. It drops all programs, because they point
// into the old heap.
func (s *session) addState(of declare.State) error {
	if s.hasState(of) {
		return nil
	}
	if n := len(of.RegionsFor(s.problem)); n > C.EP_MAX_REGIONS {
		return kernels.Failf(ep.Illegal, "%s: %d regions, EpArgs holds %d", of.Name, n, C.EP_MAX_REGIONS)
	}
	s.outputs.Forget()
	for _, c := range s.candidates {
		c.drop()
	}
	if err := s.ranks.allocate(s.partsWith(of)); err != nil {
		return err
	}
	s.states = append(s.states, of)
	return nil
}

func (s *session) parts() []declare.Region {
	if s.activation != nil {
		return s.activation.parts(s.problem)
	}
	return append(declare.ProblemParts(s.problem), declare.CastParts(s.problem)...)
}

// args returns the arguments that all kernels of a candidate share.
func (s *session) args(k *candidate) func(rank int) C.EpArgs {
	of, cast := k.state(), k.takesCast()
	return func(rank int) C.EpArgs {
		a := s.ranks.args(rank)
		p := s.problem
		a.tokens = C.int32_t(s.workload.Ranks[s.workload.BatchRank(s.ranks.rankOf(rank))].Tokens)
		a.max_tokens, a.max_rows = C.int32_t(p.MaxTokens), C.int64_t(dtype.MaxRows(p))
		at := func(part string) cu.DevicePtr { return s.ranks.at(rank, part) }
		point(&a.x, at(declare.PartX))
		point(&a.topk_ids, at(declare.PartIDs))
		point(&a.weights, at(declare.PartWeights))
		point(&a.input_scales, at(declare.PartInputScale))
		if cast {
			point(&a.x, at(declare.PartCast))
			point(&a.input_scales, at(declare.PartCastScales))
		}
		point(&a.bias, at(declare.PartBias))
		a.epilogue_scale = C.float(declare.EpilogueScale)
		point(&a.out, at(declare.PartOut))
		point(&a.out_scales, at(declare.PartScales))
		point(&a.row_offsets, at(declare.PartRowOffsets))
		point(&a.expert_ids, at(declare.PartExpertIDs))
		point(&a.src_info, at(declare.PartSrcInfo))
		point(&a.scale_offsets, at(declare.PartScaleOffsets))
		point(&a.y, at(declare.PartY))
		point(&a.combined, at(declare.PartCombined))
		point(&a.counters, at(of.Part("counters")))
		if p.SkipA2A {
			a.skip_a2a, a.allreduce_size = 1, C.int32_t(p.Ranks)
		}
		return a
	}
}

func (s *session) extrasFor(c *candidate) extras {
	x := extras{problem: s.problem, expert: s.expert, beside: s.beside}
	if s.activation != nil {
		x.silu = s.siluArgs
	}
	if d := s.backend.options.Drill; strings.Contains(c.config.Key(), d.Config) {
		x.drill = d
	}
	return x
}

func (s *session) prepared(c ep.Config) (*candidate, error) {
	if k := s.candidates[c.Key()]; k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("%s was not prepared", c.Key())
}

func (s *session) Progress() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil
	}
	return s.running.native.progress()
}

func (s *session) setRunning(p *program) {
	s.mu.Lock()
	s.running = p
	s.mu.Unlock()
}

// ended turns a program's error into a Failure, and makes the ranks usable again.
func (s *session) ended(err error) error {
	var refused *refusal
	switch {
	case errors.Is(err, errFault):
		f := kernels.Failf(ep.Hang, "%s", hangReason(s.ranks.faults(), s.ranks.deadline))
		if s.ranks.world != nil {
			return f // see groupSession.recover
		}
		return s.restored(f)
	case errors.As(err, &refused):
		return s.restored(kernels.Failf(ep.LaunchFailed, "%s", refused.reason))
	}
	return err
}

// restored resets all memory and returns the failure. If the reset fails, the session is lost.
func (s *session) restored(f *kernels.Failure) error {
	if err := s.ranks.reset(); err != nil {
		return fmt.Errorf("%w; and resetting the buffers: %v", errors.New(f.Error()), err)
	}
	return f
}
