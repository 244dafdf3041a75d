package ref

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func prefill(b *testing.B, op ep.Op) *workloads.Workload {
	b.Helper()
	w, err := workloads.Draw("uniform", ep.Problem{
		Op: op, Mode: ep.Graph, Ranks: 4, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 512, MaxTokens: 512, Dispatch: ep.FP8, Combine: ep.BF16,
	}, 1)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

const sampled = 512

func BenchmarkCheckDispatch(b *testing.B) {
	w := prefill(b, ep.Dispatch)
	o := New(w, 1)
	got := faithful(o, 0)
	c := Compare{MaxRows: sampled}
	for b.Loop() {
		if v := o.CheckDispatch(0, got, c); !v.OK() || v.Rows != sampled {
			b.Fatal(v)
		}
	}
}

func BenchmarkCheckCombine(b *testing.B) {
	w := prefill(b, ep.Combine)
	o := New(w, 1)
	var rows [][]uint16
	for t := range w.Ranks[0].Tokens {
		rows = append(rows, o.CombineRow(0, t, BF16Partial).Want)
	}
	c := Compare{Partial: BF16Partial}
	for b.Loop() {
		if v := o.CheckCombine(0, func(t int) []uint16 { return rows[t] }, c); !v.OK() || v.Rows != len(rows) {
			b.Fatal(v)
		}
	}
}
