package kernelstest

import (
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/kernels/internal/drill"
	"github.com/epbench/epbench/tune/ep"
)

// Faults are the ways in which BrokenCPU can be wrong, and how a candidate
// with that fault must end.
func Faults() map[string]ep.Status {
	return map[string]ep.Status{
		string(drill.DropToken): ep.Mismatch,
		string(drill.SwapRows):  ep.Mismatch,
		string(drill.EarlyRead): ep.Mismatch,
		string(drill.NoSignal):  ep.Hang,
		string(drill.Panic):     ep.Crash,
	}
}

// BrokenCPU is the CPU backend with a fault in the candidates that pick
// chooses; the others are sound. Hangs end after a second.
func BrokenCPU(fault string, pick func(ep.Config) bool) (kernels.Backend, error) {
	return cpu.Open(cpu.WithDeadline(time.Second), cpu.WithFault(func(c ep.Config) drill.Fault {
		if pick(c) {
			return drill.Fault(fault)
		}
		return drill.None
	}))
}
