package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// A turn is one round of one candidate. A request has at most mostTurns turns, and each adds turnLimit to the request's
// deadline.
const (
	mostTurns = 32
	turnLimit = 2 * time.Second
)

// RunTurns sends all turns in one request, to save time. If the worker is lost, it sends each turn alone.
func (s *session) RunTurns(ctx context.Context, turns []kernels.Turn) ([]kernels.Rounds, error) {
	turns = turns[:min(len(turns), mostTurns)]
	most := 0
	for i, t := range turns {
		if err := s.Prepare(ctx, t.Config); err != nil {
			if i == 0 {
				return nil, err
			}
			return s.oneByOne(ctx, turns[:i])
		}
		most = max(most, t.Fold)
	}
	// If the worker was replaced, the new process has not prepared the configs of earlier turns.
	replaced := slices.ContainsFunc(turns, func(t kernels.Turn) bool { return !s.prepared[t.Config.Key()] })
	if !s.backend.welcome.Turns || s.separate || replaced {
		return s.oneByOne(ctx, turns)
	}
	var r TurnsReply
	begin := time.Now()
	if err := s.proc.call(ctx, methodTurns, TurnsParams{s.id, turns}, &r, s.runLimit(most)+time.Duration(len(turns))*turnLimit); err != nil {
		return s.retryOneByOne(ctx, turns, err)
	}
	return s.plausibleRounds(turns, r, time.Since(begin))
}

// retryOneByOne restarts the worker after an error, and requests each turn alone. If all turns succeed, it blames
// the joint request, and the session requests each later turn alone.
func (s *session) retryOneByOne(ctx context.Context, turns []kernels.Turn, lost error) ([]kernels.Rounds, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	lost = explain(ctx, s.proc, methodTurns, lost)
	if err := s.backend.restart(ctx); err != nil {
		return nil, fmt.Errorf("after %v: %w", lost, err)
	}
	done, err := s.oneByOne(ctx, turns)
	if err == nil {
		s.separate = true
		s.backend.recordLoss(lost.Error())
	}
	return done, err
}

func (s *session) oneByOne(ctx context.Context, turns []kernels.Turn) (done []kernels.Rounds, err error) {
	for _, t := range turns {
		r, err := s.Run(ctx, t.Config, kernels.RunSpec{Rounds: 1, Fold: t.Fold})
		if err != nil {
			return done, err
		}
		done = append(done, r)
	}
	return done, nil
}

// plausibleRounds returns an answer's rounds before the first failure or impossible time.
func (s *session) plausibleRounds(turns []kernels.Turn, r TurnsReply, wall time.Duration) ([]kernels.Rounds, error) {
	for i, t := range turns {
		if i == len(r.Rounds) {
			if r.Failed != nil {
				return r.Rounds, s.reportedFailure(t.Config, reported(r.Failed.Status, r.Failed.Reason))
			}
			if i > 0 {
				return r.Rounds, nil // the caller requests the rest
			}
			return nil, s.quarantine(t.Config, kernels.Failf(ep.Unstable, "the worker returned no round for %d turns", len(turns)))
		}
		why, left := s.implausible(r.Rounds[i], kernels.RunSpec{Rounds: 1, Fold: t.Fold}, wall)
		if why != "" {
			return r.Rounds[:i], s.quarantine(t.Config, kernels.Failf(ep.Unstable, "the worker's times cannot be right: %s", why))
		}
		wall = left
	}
	return r.Rounds[:len(turns)], nil
}
