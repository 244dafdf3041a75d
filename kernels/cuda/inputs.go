package cuda

import (
	"sync"

	"github.com/epbench/epbench/workloads"
)

// epilogueScale is EpArgs.epilogue_scale: a power of two, so that scaling
// rounds nothing.
const epilogueScale = 0.5

// inputs is what one rank uploads before a verification.
type inputs struct {
	x       []uint16 // [tokens, hidden]
	ids     []int32
	weights []float32
}

// makeInputs draws the tokens of every rank. Ranks with the same batch share
// them.
func makeInputs(w *workloads.Workload) []inputs {
	out := make([]inputs, len(w.Ranks))
	var wg sync.WaitGroup
	for rank := range out {
		if w.Batch(rank) == rank {
			wg.Go(func() { out[rank] = makeBatch(w, rank) })
		}
	}
	wg.Wait()
	for rank := range out {
		out[rank] = out[w.Batch(rank)]
	}
	return out
}

func makeBatch(w *workloads.Workload, rank int) inputs {
	r, hidden := w.Ranks[rank], w.Problem.Hidden
	in := inputs{make([]uint16, r.Tokens*hidden), r.Experts, r.Weights}
	for t := range r.Tokens {
		w.Token(rank, t, in.x[t*hidden:(t+1)*hidden])
	}
	return in
}

// makeBias is EpArgs.bias: BF16 values from 0.5 to just below 1, different in
// neighbouring columns.
func makeBias(hidden int) []uint16 {
	out := make([]uint16, hidden)
	for i := range out {
		out[i] = 0x3f00 | uint16(i%128)
	}
	return out
}
