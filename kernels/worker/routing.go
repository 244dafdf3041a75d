package worker

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/epbench/epbench/workloads"
)

func openParams(w *workloads.Workload) OpenParams {
	p := OpenParams{Problem: w.Problem, Routing: w.Spec, Seed: w.Seed}
	for _, r := range w.Ranks {
		p.Ranks = append(p.Ranks, RankRouting{
			Tokens:  r.Tokens,
			Experts: encodeInts(r.Experts),
			Weights: encodeFloats(r.Weights),
		})
	}
	return p
}

// workload rebuilds what the client sent. The error names the field.
func (p OpenParams) workload() (*workloads.Workload, error) {
	if err := p.Problem.Validate(); err != nil {
		return nil, err
	}
	if len(p.Ranks) != p.Problem.Ranks {
		return nil, fmt.Errorf("ranks: routing of %d ranks, the problem has %d", len(p.Ranks), p.Problem.Ranks)
	}
	w := &workloads.Workload{Problem: p.Problem, Spec: p.Routing, Seed: p.Seed}
	for i, r := range p.Ranks {
		n := r.Tokens * p.Problem.TopK
		if r.Tokens < 0 || r.Tokens > p.Problem.MaxTokens || len(r.Experts) != 4*n || len(r.Weights) != 4*n {
			return nil, fmt.Errorf("ranks[%d]: %d tokens need %d bytes of experts and of weights, got %d and %d",
				i, r.Tokens, 4*n, len(r.Experts), len(r.Weights))
		}
		rr := workloads.Routing{Tokens: r.Tokens, Experts: decodeInts(r.Experts), Weights: decodeFloats(r.Weights)}
		for j, e := range rr.Experts {
			if e < -1 || int(e) >= p.Problem.Experts {
				return nil, fmt.Errorf("ranks[%d].experts[%d]: %d is outside -1 to %d", i, j, e, p.Problem.Experts-1)
			}
		}
		w.Ranks = append(w.Ranks, rr)
	}
	return w, nil
}

func encodeInts(v []int32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func decodeInts(b []byte) []int32 {
	v := make([]int32, len(b)/4)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

func encodeFloats(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func decodeFloats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
