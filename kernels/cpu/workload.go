package cpu

import (
	"context"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// checkWorkload refuses a workload that does not fit into a buffer or into the host's memory.
func checkWorkload(m ep.Machine, w *workloads.Workload) error {
	p := w.Problem
	if err := p.Validate(); err != nil {
		return err
	}
	if err := checkProblem(p); err != nil {
		return err
	}
	if len(w.Ranks) != p.Ranks {
		return fmt.Errorf("workload: routing of %d ranks, but the problem has %d", len(w.Ranks), p.Ranks)
	}
	for i, r := range w.Ranks {
		if err := kernels.CheckRouting(p, r); err != nil {
			return fmt.Errorf("workload: rank %d: %w", i, err)
		}
	}
	if need := residentBytes(w); m.Memory > 0 && need > m.Memory*3/4 {
		return fmt.Errorf("tokens: this workload uses about %d GiB, more than %d GiB, three quarters of this host's memory; lower --tokens, --hidden or --ranks",
			need>>30, m.Memory*3/4>>30)
	}
	return nil
}

func residentBytes(w *workloads.Workload) int64 {
	if w.Problem.Op == ep.Activation {
		return int64(w.Problem.Ranks) * w.BytesActivation()
	}
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
	if s.combines() {
		perRow += int64((sets + 1) * s.rowBytes)
	}
	return rows*perRow + tokens*int64(3*s.rowBytes)
}

func emptyRounds(ctx context.Context, b *Backend) (map[string]float64, error) {
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 8, Experts: 2, TopK: 1,
		MaxTokens: 1, Dispatch: ep.BF16, Combine: ep.BF16}
	s, err := open(b, &workloads.Workload{Problem: p, Ranks: make([]workloads.Routing, p.Ranks)})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	nothing := stage{launch{blocks: 1}, func(*worker, launch, int) bool { return true }}
	j, err := s.start(ctx, []stage{nothing}, kernels.RunSpec{Rounds: 101, Fold: 10}, noFault)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"wall": kernels.Rounds{Seconds: j.seconds()}.MedianOfSlowest()}, nil
}
