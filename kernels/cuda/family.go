// Package cuda drives our CUDA kernels. The files without the cuda tag
// declare the kernels and decide legality; they build anywhere. The tagged
// files link the driver and belong to the worker process alone, because
// gorgonia.org/cu exits the program when there is no driver.
package cuda

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/plan"
)

// family is one kernel of one op: what is swept, and how a config becomes
// device code and launches. All functions are pure.
type family struct {
	kernel kernels.Kernel

	// source is the file under native/kernels that holds the entry points.
	source string

	// defines are the -D options of the compile-bound tuple, besides those
	// of problemDefines. Equal defines share one device binary.
	defines func(plan.Machine, plan.Problem, plan.Config) []string

	// regions are the family's parts of the symmetric heap, in the order of
	// its device-side enum (index into EpArgs.region).
	regions func(plan.Problem) []region

	// counters is the number of int32 words behind EpArgs.counters.
	counters func(plan.Problem) int

	// launches are the kernels of one call, in order, on every rank.
	launches func(plan.Machine, plan.Problem, plan.Config) []launch
}

// region is a part of the symmetric heap.
type region struct {
	name  string
	bytes int64
	fill  byte // 0x00 or 0xff, written at set-up and after a fault
}

// launch is one kernel of a call.
type launch struct {
	entry  string // extern "C" __global__ name
	grid   int    // blocks; all must be resident at once
	block  int    // threads
	shared int    // bytes of dynamic shared memory
	pdl    bool   // programmatic dependent launch
	params launchParams
}

// launchParams are the launch-bound fields of EpArgs.
type launchParams struct {
	sms, waitSMs, countSMs, tileTokens, chunkBytes int
}

// families lists every kernel this backend has. The first of an op carries
// the library default.
func families() []family { return nil }
