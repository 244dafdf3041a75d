//go:build cuda

package cuda

import (
	"fmt"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/kernels/kernelstest"
	"github.com/epbench/epbench/tune/plan"
)

// opener makes backends for the conformance suite. The event clock reads more
// than nothing even for a call that is shorter than the noise of a chain.
func opener(o Options) func() (kernels.Backend, error) {
	o.Clock = clockEvent
	return func() (kernels.Backend, error) { return Open(o) }
}

// TestConformance runs the suite with one rank a GPU, for as many as are
// visible.
func TestConformance(t *testing.T) {
	kernelstest.TestBackend(t, opener(Options{}), kernelstest.Options{Mode: plan.Graph})
}

// TestLoopback runs it with up to eight ranks on the GPUs there are.
func TestLoopback(t *testing.T) {
	b, err := Open(Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	axes := conform.AxesFor(b.Machine())
	b.Close()
	axes.Ranks, axes.Local = []int{1, 2, 4, 8}, []int{1, 2, 32}
	kernelstest.TestBackend(t, opener(Options{Loopback: true}), kernelstest.Options{Mode: plan.Graph, Axes: &axes})
}

// smallAxes are a few shapes that even a sanitizer or an emulated GPU gets
// through.
func smallAxes() *conform.Axes {
	return &conform.Axes{
		Ops: plan.Ops(), Formats: plan.Formats(),
		Ranks: []int{1, 2}, Local: []int{1, 3}, TopK: []int{1, 4}, Hidden: []int{256, 512},
		Tokens: []int{0, 1, 5}, Capacity: 5, Routings: []string{"uniform", "ragged"},
	}
}

// sanitizedSMs keeps a sanitizer's time in minutes: racecheck did not get
// through 132 SMs and one rank in three.
const sanitizedSMs = 16

// TestSanitize is what compute-sanitizer runs: one rank, then two on one GPU,
// with few configs a case, since each takes a hundred times as long there.
func TestSanitize(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		t.Run(fmt.Sprint(ranks, " ranks"), func(t *testing.T) {
			axes := smallAxes()
			axes.Ranks = []int{ranks}
			kernelstest.TestBackend(t, opener(Options{Loopback: true, Deadline: time.Minute, sms: sanitizedSMs}),
				kernelstest.Options{Mode: plan.Graph, Axes: axes, Configs: 4, Iterations: 2})
		})
	}
}
