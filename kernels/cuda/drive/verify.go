//go:build cuda

package drive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

func (s *session) Verify(ctx context.Context, c ep.Config) (kernels.Comparison, error) {
	k, err := s.prepared(c)
	if err != nil {
		return kernels.Comparison{}, err
	}
	if err := s.runVerification(ctx, k); err != nil {
		return kernels.Comparison{}, err
	}
	if s.activation != nil {
		return s.judgeActivation(c)
	}
	d, combine := k.calls[ep.Dispatch], ref.Compare{}
	if c := k.calls[ep.Combine]; c != nil {
		combine = c.declaration.Judged(s.problem, c.config)
	}
	v, err := s.outputs.Judge(s.problem.Op, d.declaration.Judged(s.problem, d.config), combine)
	v.Took.Filling, v.Took.Running = s.checking.Filling, s.checking.Running
	return v, err
}

func (s *session) read(rank int, part string, bytes int, offsets ...int) ([][]byte, error) {
	return s.ranks.gather(rank, part, offsets, bytes)
}

func (s *session) Probe(rank, token, k int) ([]uint16, error) {
	if s.activation != nil {
		return nil, fmt.Errorf("probe: the rows of an activation belong to no token")
	}
	return s.outputs.Probe(rank, token, k)
}

// runVerification fills the outputs with a pattern and runs the candidate once.
func (s *session) runVerification(ctx context.Context, k *candidate) error {
	s.outputs.Forget()
	s.checking = ep.CheckTime{}
	if err := s.poison(); err != nil {
		return err
	}
	defer spent(&s.checking.Running)()
	p, err := newProgram(s.ranks, verificationRound(s.problem.Op, s.besideLaunches()), k.calls, s.args(k), s.extrasFor(k))
	if err != nil {
		return err
	}
	defer p.free()
	return s.attempt(p, func() error {
		_, err := p.run(ctx, 1, 0)
		return err
	})
}

func (s *session) poison() error {
	defer spent(&s.checking.Filling)()
	poisoned := declare.OutputParts
	if s.activation != nil {
		poisoned = func(p ep.Problem) []declare.Region { return s.activation.outputs(p, 0) }
	}
	if err := s.ranks.fill(poisoned(s.problem)); err != nil {
		return err
	}
	return s.upload()
}

func (s *session) Digest(ctx context.Context, c ep.Config) (string, error) {
	k, err := s.prepared(c)
	if err != nil {
		return "", err
	}
	if s.activation == nil && k.calls[ep.Combine] == nil {
		return "", fmt.Errorf("%s: a dispatch alone has no combined tokens to digest", c.Key())
	}
	if err := s.runVerification(ctx, k); err != nil {
		return "", err
	}
	if s.activation != nil {
		return s.digestActivation()
	}
	h := sha256.New()
	for rank := range s.ranks.local {
		tokens := s.workload.Ranks[s.workload.BatchRank(rank)].Tokens
		all, err := download[byte](s.ranks, rank, declare.PartCombined, 0, 2*tokens*s.problem.Hidden)
		if err != nil {
			return "", err
		}
		h.Write(all)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
