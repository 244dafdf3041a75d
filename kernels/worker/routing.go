package worker

import (
	"encoding/binary"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/workloads"
)

// openParams returns the parameters of "open". If a matrix product runs beside the calls, the parameters include
// the default config. The worker cannot find this config, because only epbench evaluates rules.
func (b *Backend) openParams(w *workloads.Workload) (OpenParams, error) {
	p := routingParams(w)
	if _, beside := w.Problem.Product(); beside {
		c, err := kernels.Default(b.kernels, b.Machine(), w.Problem, 0)
		if err != nil {
			return p, fmt.Errorf("beside: the matrix product needs a default config: %w", err)
		}
		p.Default = &c
	}
	return p, nil
}

func routingParams(w *workloads.Workload) OpenParams {
	p := OpenParams{Problem: w.Problem, Routing: w.Spec, Seed: w.Seed}
	for _, r := range w.Ranks {
		p.Ranks = append(p.Ranks, RankRouting{
			Tokens:  r.Tokens,
			Experts: encode(r.Experts),
			Weights: encode(r.Weights),
		})
	}
	return p
}

func (p OpenParams) workload() (*workloads.Workload, error) {
	if err := p.Problem.Validate(); err != nil {
		return nil, err
	}
	if len(p.Ranks) != p.Problem.Ranks {
		return nil, fmt.Errorf("ranks: routing of %d ranks, but the problem has %d", len(p.Ranks), p.Problem.Ranks)
	}
	w := &workloads.Workload{Problem: p.Problem, Spec: p.Routing, Seed: p.Seed}
	for i, r := range p.Ranks {
		if n := 4 * p.Problem.TopK; r.Tokens < 0 || len(r.Experts) != n*r.Tokens || len(r.Weights) != n*r.Tokens {
			return nil, fmt.Errorf("ranks[%d]: %d tokens need %d bytes of experts and of weights, got %d and %d",
				i, r.Tokens, n*r.Tokens, len(r.Experts), len(r.Weights))
		}
		rr := workloads.Routing{Tokens: r.Tokens, Experts: decode[int32](r.Experts), Weights: decode[float32](r.Weights)}
		if err := kernels.CheckRouting(p.Problem, rr); err != nil {
			return nil, fmt.Errorf("ranks[%d]: %w", i, err)
		}
		w.Ranks = append(w.Ranks, rr)
	}
	return w, nil
}

// encode returns little-endian bytes. The slice is never nil, because JSON would have null in its place.
func encode[T int32 | float32 | uint16](v []T) []byte {
	b, err := binary.Append([]byte{}, binary.LittleEndian, v)
	if err != nil {
		panic(err) // fixed sizes always encode
	}
	return b
}

// decode returns the values that encode wrote. len(b) must be a multiple of 4.
func decode[T int32 | float32](b []byte) []T {
	v := make([]T, len(b)/4)
	if _, err := binary.Decode(b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return v
}
