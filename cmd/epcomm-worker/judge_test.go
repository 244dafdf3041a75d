//go:build cuda

package main

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// TestPrecisionOfPacks: a pack with rows of both precisions has parameter "precision". Each precision has an error
// bound.
func TestPrecisionOfPacks(t *testing.T) {
	p := &pack.Pack{Digest: "0123456789abcdef"}
	b := &backend{pack: p}
	combine := func() kernels.Kernel { return b.Kernels()[1] }
	if n := len(combine().Params); n != 0 {
		t.Errorf("a pack for full precision has %d parameters", n)
	}
	p.Reduced = true
	full := combine().DefaultConfig(b.machine, ep.Problem{})
	for _, op := range []ep.Op{ep.Combine, ep.Pair} {
		s := &session{backend: b, workload: &workloads.Workload{Problem: ep.Problem{Op: op, Hidden: 512}}}
		for _, config := range []ep.Config{full, full.With("precision", "reduced")} {
			reduced := combine().Changes(kernels.Precision, full, config) != ""
			if op == ep.Pair {
				config = ep.Join(ep.Config{Kernel: "epcomm"}, config)
			}
			_, judged, err := s.judgedAs(config)
			if err != nil || s.reduced(config) != reduced || (judged.Partial == ref.BF16Partial) != reduced {
				t.Errorf("%s: judged as %+v, %v", config.Key(), judged, err)
			}
		}
	}
}
