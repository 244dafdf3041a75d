package kernelstest

import (
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/kernels/internal/drill"
	"github.com/epbench/epbench/tune/plan"
)

// Faults are the ways in which BrokenCPU can be wrong, and how a candidate
// with that fault must end.
func Faults() map[string]kernels.Status {
	return map[string]kernels.Status{
		string(drill.DropToken): kernels.Mismatch,
		string(drill.SwapRows):  kernels.Mismatch,
		string(drill.EarlyRead): kernels.Mismatch,
		string(drill.NoSignal):  kernels.Hang,
		string(drill.Panic):     kernels.Crash,
	}
}

// BrokenCPU is the CPU backend with a fault in the candidates that pick
// chooses; the others are sound. Hangs end after a second.
func BrokenCPU(fault string, pick func(plan.Config) bool) (kernels.Backend, error) {
	return cpu.Open(cpu.WithDeadline(time.Second), cpu.WithFault(func(c plan.Config) drill.Fault {
		if pick(c) {
			return drill.Fault(fault)
		}
		return drill.None
	}))
}
