package cpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/internal/drill"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// checkWorkload refuses a workload that would write outside a buffer or not fit
// into memory.
func checkWorkload(m ep.Machine, w *workloads.Workload) error {
	p := w.Problem
	if err := p.Validate(); err != nil {
		return err
	}
	if err := checkProblem(p); err != nil {
		return err
	}
	if len(w.Ranks) != p.Ranks {
		return fmt.Errorf("workload: routing of %d ranks for a problem of %d", len(w.Ranks), p.Ranks)
	}
	for i, r := range w.Ranks {
		if err := checkRouting(p, r); err != nil {
			return fmt.Errorf("workload: rank %d: %w", i, err)
		}
	}
	if need := residentBytes(w); m.Memory > 0 && need > m.Memory*3/4 {
		return fmt.Errorf("tokens: this workload touches about %d GiB, three quarters of this host are %d GiB; lower --tokens, --hidden or --ranks",
			need>>30, m.Memory*3/4>>30)
	}
	return nil
}

func checkRouting(p ep.Problem, r workloads.Routing) error {
	n := r.Tokens * p.TopK
	switch {
	case r.Tokens < 0 || r.Tokens > p.MaxTokens:
		return fmt.Errorf("%d tokens, the buffers hold %d", r.Tokens, p.MaxTokens)
	case len(r.Experts) != n || len(r.Weights) != n:
		return fmt.Errorf("%d experts and %d weights for %d selections", len(r.Experts), len(r.Weights), n)
	}
	for t := range r.Tokens {
		ids := r.Experts[t*p.TopK : (t+1)*p.TopK]
		for k, e := range ids {
			if e < -1 || int(e) >= p.Experts {
				return fmt.Errorf("token %d: expert %d is outside -1 to %d", t, e, p.Experts-1)
			}
			if e >= 0 && slices.Contains(ids[:k], e) {
				return fmt.Errorf("token %d: expert %d is selected twice", t, e)
			}
		}
	}
	return nil
}

// residentBytes estimates the memory that a session touches: every row in each of
// two receive sets, in the output, in the experts' rows, and in each of two sets on
// its way back.
func residentBytes(w *workloads.Workload) int64 {
	s := shapeOf(w.Problem)
	var rows, tokens int64
	for _, r := range w.Ranks {
		tokens += int64(r.Tokens)
		for _, e := range r.Experts {
			if e >= 0 {
				rows++
			}
		}
	}
	perRow := int64(sets*s.header.Bytes + s.encoding.Payload)
	if s.Op != ep.Dispatch {
		perRow += int64((sets + 1) * s.rowBytes)
	}
	return rows*perRow + tokens*int64(3*s.rowBytes)
}

// expected is the count that a worker with the fault EarlyRead takes without
// waiting.
func (s *Session) expected(rank, pair int) int64 {
	var n int64
	source := pair % s.sources
	for _, e := range s.ranks[source].experts {
		if int(e) == rank*s.local+pair/s.sources {
			n++
		}
	}
	return n
}

// emptyRounds runs a program that does nothing.
func emptyRounds(ctx context.Context, b *Backend) (map[string]float64, error) {
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 8, Experts: 2, TopK: 1,
		MaxTokens: 1, Dispatch: ep.BF16, Combine: ep.BF16}
	s, err := open(b, &workloads.Workload{Problem: p, Ranks: make([]workloads.Routing, p.Ranks)})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	nothing := stage{launch{blocks: 1}, func(*worker, launch, int) bool { return true }}
	j, err := s.start(ctx, []stage{nothing}, kernels.RunSpec{Rounds: 101, Fold: 10}, drill.None)
	if err != nil {
		return nil, err
	}
	var slowest []float64
	for _, ranks := range j.seconds() {
		slowest = append(slowest, slices.Max(ranks))
	}
	slices.Sort(slowest)
	return map[string]float64{"wall": slowest[len(slowest)/2]}, nil
}
