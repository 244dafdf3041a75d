// Package declare describes the CUDA kernels: their parameters, which values are legal together, which device code
// runs, and how memory is laid out. A config is a kernel with a value for each of its parameters.
//
// The package does not link the CUDA driver, so that a host without a GPU can check configs and compile kernels.
//
// Two kernels work together. A dispatch sends each token to the ranks (GPUs) that hold its experts. A combine sends
// the experts' outputs back. Both write into the symmetric heap of other ranks: one buffer on each rank, with the same
// layout on every rank.
package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// A Declaration describes one kernel. Its functions depend on nothing but their arguments.
type Declaration struct {
	// Kernel holds the parameters. Call Declaration.Check instead of Kernel.Check, which makes only this kernel's own
	// checks.
	Kernel kernels.Kernel

	// ties lists values with which another parameter has no effect and must have a fixed value.
	ties []tie

	// source is the file with the entry points (__global__ functions), below native/kernels. It includes no CUDA
	// header, because a host may have only the driver. Entry points take const __grid_constant__ EpArgs: otherwise the
	// compiler copies EpArgs to the stack.
	source string

	// entry returns the name of the entry point, without a suffix for mode=split. Nil means the name of the kernel.
	entry func(ep.Problem, ep.Config) string

	// shared returns the dynamic shared memory of a block, in bytes. Nil means none.
	shared func(ep.Problem, ep.Config) int

	// State is the memory through which the ranks exchange tokens, the same for a dispatch and its combine.
	State State

	// stateOf returns the memory of one config. Nil means State for all configs.
	stateOf func(ep.Config) State

	// defines returns macros (NAME=VALUE) for compile-time parameters. Leave out macros that the entry point does not
	// read: kernels with the same source and macros share one binary.
	defines func(ep.Config) []string

	// dispatch is set only for a combine. It returns the dispatch that runs before a combine that is timed or verified
	// alone.
	dispatch func(ep.Machine, ep.Problem, ep.Config) ep.Config

	// compare bounds the difference between the output and package ref's. Its zero value means the same bytes for a
	// dispatch, and package ref's error bound for a combine.
	compare ref.Compare

	// places reports whether other ranks write the output rows, which must then lie on the symmetric heap.
	places func(ep.Config) bool
}

// Declarations lists the kernels that one process can run on all GPUs of a host. The order matters: the first kernel
// for an operation and layout gives the default config.
func Declarations() []Declaration {
	return []Declaration{
		dispatchEP(), combineEP(),
		dispatchLL(), combineLL(),
		dispatchFinal(), combineFinal(),
		dispatchRank(), combineRank(),
		dispatchMasked(), combineMasked(),
		fusedSilu(),
	}
}

// HostDeclarations lists the kernels that also send tokens to other hosts. They need one process for each GPU.
func HostDeclarations() []Declaration {
	return []Declaration{dispatchHosts(), combineHosts()}
}

// State describes the memory that stays between calls: regions of the symmetric heap, and counters of each rank.
type State struct {
	Name string

	// extends names a smaller state, or "". The regions of the smaller state come first in this state, so that its
	// dispatch can run here too.
	extends string

	// anyDType is true if consecutive calls may have different dtypes. A region whose size depends on the dtype must
	// then have Halves set, or hold only data of a single call.
	anyDType bool

	// Regions lists the regions in the order of EpArgs.region.
	Regions func(ep.Problem) []Region

	// Counters returns the number of int32 words at EpArgs.counters. Word 0 is the abort word: a kernel that finds it
	// set stops waiting.
	Counters func(ep.Problem) int
}

func onlyAbort(ep.Problem) int { return 1 }

// StateOf returns the state that the calls of a config use.
func (f Declaration) StateOf(c ep.Config) State {
	if f.stateOf == nil {
		return f.State
	}
	return f.stateOf(c)
}

// Of returns the state for micro-batch 0 or 1. Each has its own memory, because their calls overlap in time.
func (s State) Of(micro int) State {
	if micro > 0 {
		s.Name += "-second"
	}
	return s
}

// serves reports whether s is the state `other` or extends it.
func (s State) serves(other State) bool { return other.Name == s.Name || other.Name == s.extends }

// Part returns the name under which the heap holds one region of s, or its counters.
func (s State) Part(name string) string { return s.Name + "." + name }

// Region is a part of the symmetric heap. It has the same offset and size on every rank.
type Region struct {
	Name  string
	Bytes int64
	Fill  byte // initial value of every byte: 0x00 or 0xff

	// Halves is true if consecutive calls use different halves of the region. With anyDType, the middle of the region
	// has the same offset for every dtype, so that consecutive calls share no byte.
	Halves bool

	// Area names memory that regions of several states have in common, or "". States with a region in AreaReturn
	// number their combines in one common sequence.
	Area string
}

// The combines of llState and polledState (see ll.go) poll AreaReturn. Between two calls, all its bits are ones.
const (
	AreaReturn  = "return"  // [call number % 2][max_tokens][max(ranks, topk)][hidden] BF16
	AreaStarted = "started" // [ranks] u32: the number of the last combine that each rank began
)

func (r Region) in(area string) Region {
	r.Area = area
	return r
}

func (r Region) halves() Region {
	r.Halves = true
	return r
}

// Zeroed returns a region that starts as zeros.
func Zeroed(name string, bytes int64) Region { return Region{Name: name, Bytes: bytes} }

// Poisoned returns a region in which all bits start as ones. No index, count or flag has this value.
func Poisoned(name string, bytes int64) Region { return Region{Name: name, Bytes: bytes, Fill: 0xff} }
