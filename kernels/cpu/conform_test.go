package cpu_test

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/kernels/kernelstest"
	"github.com/epbench/epbench/tune/ep"
)

func TestConformance(t *testing.T) {
	open := func() (kernels.Backend, error) { return cpu.Open() }
	kernelstest.TestBackend(t, open, kernelstest.Options{Mode: ep.Eager})
}
