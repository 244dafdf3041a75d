package kernels_test

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestCostOf: in each field a pair's cost is the larger cost of its two kernels.
func TestCostOf(t *testing.T) {
	half := func(name string) kernels.Kernel {
		return kernels.Kernel{Name: name, Params: []kernels.Param{
			{Name: "sms", Cost: kernels.SMCost}, {Name: "threads", Cost: kernels.ThreadCost},
			{Name: "ring", Cost: kernels.BufferCost}, {Name: "algo", Cost: kernels.BufferCost}, {Name: "chunk"},
			{Name: "foreign", Cost: kernels.BufferCost + 1},
		}}
	}
	d := ep.Config{Kernel: "d", Values: map[string]ep.Value{"sms": "8", "threads": "512", "ring": "64", "algo": "dedup", "chunk": "4096", "foreign": "7"}}
	c := ep.Config{Kernel: "c", Values: map[string]ep.Value{"sms": "16", "threads": "128", "ring": "32"}}
	if got, want := half("d").CostOf(d), (ep.Cost{SMs: 8, Threads: 512, Bytes: 64}); got != want {
		t.Errorf("the dispatch: %+v, want %+v", got, want)
	}
	pair := kernels.PairOf(half("d"), half("c"))
	if got, want := pair.CostOf(ep.Join(d, c)), (ep.Cost{SMs: 16, Threads: 512, Bytes: 64}); got != want {
		t.Errorf("the pair: %+v, want %+v", got, want)
	}
	if got := pair.CostOf(ep.Config{}); got != (ep.Cost{}) {
		t.Errorf("a config without values: %+v", got)
	}
}
