package workloads

import (
	"math"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestActivationBytes(t *testing.T) {
	p := ep.Problem{Op: ep.Activation, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 256, Experts: 8, TopK: 4, Tokens: 16, MaxTokens: 16,
		Dispatch: ep.FP8, Combine: ep.BF16}
	w := mustNew(t, "balanced", p, 1)
	if a, b := w.Received(0), w.Received(1); a+b != 2*16*4 {
		t.Errorf("the ranks receive %d and %d rows, want 128 in all", a, b)
	}
	rows := max(w.Received(0), w.Received(1))
	// A row has 512 BF16 inputs, 256 bytes of FP8 output and 2 scales of 4 bytes.
	if got, want := w.BytesMemory(ep.Activation), int64(rows*(2*2*256+256+2*4)); got != want {
		t.Errorf("%d bytes for %d rows, want %d", got, rows, want)
	}
	if w.BytesMemory(ep.Dispatch) != 0 || w.BytesOp(ep.Activation, Direct) != 0 {
		t.Error("a dispatch has bytes of memory, or an activation sends bytes")
	}
	shared := *w
	shared.Problem.SharedExpert = true
	if got := shared.Received(0) - w.Received(0); got != 16 {
		t.Errorf("a shared expert brings %d rows, want 16", got)
	}
}

func TestReceivedByHand(t *testing.T) {
	w := &Workload{Problem: ep.Problem{Ranks: 2, Nodes: 1, Experts: 4, TopK: 2}, Ranks: []Routing{
		{Tokens: 2, Experts: []int32{0, 1, 1, 3}, Weights: make([]float32, 4)},
		{Tokens: 1, Experts: []int32{0, -1}, Weights: make([]float32, 2)},
	}}
	if a, b := w.Received(0), w.Received(1); a != 4 || b != 1 {
		t.Errorf("%d and %d rows, want 4 and 1", a, b)
	}
}

func TestGatesOfActivation(t *testing.T) {
	w := &Workload{Seed: 1}
	a, b, c := make([]uint16, 1<<16), make([]uint16, 1<<16), make([]uint16, 1<<16)
	w.Gates(0, 0, a)
	w.Gates(0, 1, b)
	w.Gates(1, 0, c)
	var most float64
	least, same, large := math.Inf(1), 0, 0
	for i, bits := range a {
		v := math.Abs(float64(math.Float32frombits(uint32(bits) << 16)))
		most, least = max(most, v), min(least, v)
		if v >= 32 {
			large++
		}
		if bits == b[i] || bits == c[i] {
			same++
		}
	}
	if most < 128 || most >= 256 || least < 0.125 {
		t.Errorf("magnitudes from %g to %g", least, most)
	}
	if large < 32 || large > 96 {
		t.Errorf("%d of %d values are 32 or more, want about one in 1,024", large, len(a))
	}
	if same > len(a)/100 {
		t.Errorf("%d of %d values equal the value of another row or rank", same, len(a))
	}
}
