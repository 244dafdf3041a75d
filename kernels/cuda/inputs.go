package cuda

import (
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/epbench/epbench/workloads"
)

// epilogueScale is EpArgs.epilogue_scale: a power of two, so that scaling
// rounds nothing.
const epilogueScale = 0.5

// inputs are what one rank uploads before a verification.
type inputs struct {
	x       []uint16 // [tokens, hidden]
	ids     []int32
	weights []float32
}

// drawnTogether is how many tokens one processor draws at a time.
const drawnTogether = 64

// makeInputs draws the tokens of every rank, on all processors. Ranks with the
// same batch share them.
func makeInputs(w *workloads.Workload) []inputs {
	out := make([]inputs, len(w.Ranks))
	hidden := w.Problem.Hidden
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for rank := range out {
		if w.Batch(rank) != rank {
			continue
		}
		r := w.Ranks[rank]
		x := make([]uint16, r.Tokens*hidden)
		out[rank] = inputs{x, r.Experts, r.Weights}
		for first := 0; first < r.Tokens; first += drawnTogether {
			g.Go(func() error {
				for t := first; t < min(first+drawnTogether, r.Tokens); t++ {
					w.Token(rank, t, x[t*hidden:(t+1)*hidden])
				}
				return nil
			})
		}
	}
	_ = g.Wait() // the functions return no error
	for rank := range out {
		out[rank] = out[w.Batch(rank)]
	}
	return out
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
