package worker

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// A probe names a token. Of an activation none is chosen: a worker has no such row.
func TestProbesByOp(t *testing.T) {
	for _, op := range ep.Ops() {
		w := &workloads.Workload{
			Problem: ep.Problem{Op: op, Ranks: 1, Experts: 2, TopK: 1},
			Ranks:   []workloads.Routing{{Tokens: 2, Experts: []int32{0, 1}}},
		}
		if n := len(chooseProbes(w)); (n > 0) != (op != ep.Activation) {
			t.Errorf("%s: %d probes", op, n)
		}
	}
}
