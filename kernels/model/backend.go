package model

import (
	"context"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Backend returns predicted times. Tables and run directories refuse them.
type Backend struct {
	model *Model
	path  string
}

// Open reads a model file with fitted coefficients.
func Open(path string) (*Backend, error) {
	if path == "" {
		return nil, fmt.Errorf("model: no file; write model:FILE with a file that epbench model fit made")
	}
	f, err := Load(path)
	if err != nil {
		return nil, err
	}
	if len(f.Families) == 0 {
		return nil, fmt.Errorf("%s gives the speeds of links, but has no fitted coefficients; epbench model fit RUN... -o FILE makes a file with both", path)
	}
	m, err := New(f, "", "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Backend{m, path}, nil
}

func (b *Backend) Machine() ep.Machine {
	return ep.Machine{Backend: ep.Predicted, Name: "predicted by " + b.path, SMs: b.model.File.SMs, Link: b.model.Host.Name + "+" + b.model.Network.Name}
}

func (b *Backend) Kernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		out = append(out, kernels.Kernel{Name: ep.Predicted, Op: op, Doc: "Predicted time of the best " + string(op) + "; nothing runs.", Check: b.check})
	}
	return out
}

func (b *Backend) check(_ ep.Machine, p ep.Problem, _ ep.Config) error {
	if p.SkipA2A || p.SharedExpert {
		return fmt.Errorf("skip-a2a, shared-expert: the model has no fit for them; leave both out")
	}
	_, err := b.model.File.Family(b.model.Design, p)
	return err
}

func (b *Backend) Open(_ context.Context, w *workloads.Workload) (kernels.Session, error) {
	p := w.Problem
	s := Shape{Ranks: p.Ranks, PerHost: p.Ranks / p.Nodes, Experts: p.Experts, TopK: p.TopK, Tokens: p.Tokens}
	return &session{b.model, p, s, Counted(w)}, nil
}

func (b *Backend) Close() error { return nil }

type session struct {
	model   *Model
	problem ep.Problem
	shape   Shape
	counts  []Traffic
}

const Clock = ep.Predicted

func (s *session) Prepare(context.Context, ep.Config) error { return nil }

// Run returns the same prediction for all rounds and ranks.
func (s *session) Run(_ context.Context, _ ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	q, err := s.model.Predict(s.problem, s.shape, s.counts)
	if err != nil {
		return kernels.Rounds{}, err
	}
	out := kernels.Rounds{Clock: Clock, Fold: spec.Fold}
	for range spec.Rounds {
		round := make([]float64, s.problem.Ranks)
		for i := range round {
			round[i] = q.Seconds
		}
		out.Seconds = append(out.Seconds, round)
	}
	return out, nil
}

func (s *session) Verify(context.Context, ep.Config) (kernels.Comparison, error) {
	return kernels.Comparison{}, nil
}

func (s *session) Close() error { return nil }
