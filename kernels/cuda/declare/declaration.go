// Package declare describes the CUDA kernels: their parameters, which values the parameters may have together, which
// device code runs for them, and how memory is laid out. A config is a kernel with a value for each of its parameters.
//
// The package does not link the CUDA driver, so that a host without a GPU can check configs and compile kernels.
//
// Two kernels work together. A dispatch sends each token to the ranks (GPUs) that hold its experts, and a combine sends
// the experts' outputs back. Both write into the memory of other ranks. This memory is the symmetric heap: one buffer on
// each rank, in which everything has the same offset on every rank.
package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// A Declaration describes one kernel. Its functions depend on nothing but their arguments. Kernels that share device
// sources are declared in one Go file.
type Declaration struct {
	// Kernel holds the parameters. Kernel.Check makes only the checks that are special to this kernel. The method
	// Declaration.Check makes these and the checks of all kernels.
	Kernel kernels.Kernel

	// ties lists values with which another parameter has no effect. The other parameter must then have a fixed value, so
	// that a search does not measure the same launch twice.
	ties []tie

	// source is the file that holds the entry points (__global__ functions), such as "ep/dispatch.cuh". Its path begins
	// in native/kernels. The paths of files that it includes begin in native/kernels or native/include, such as
	// "common/ptx.cuh" and "ep_args.h". The file includes no CUDA header, because a host may have the driver but not the
	// headers. An entry point is declared as EP_ENTRY(threads, 1) name(const __grid_constant__ EpArgs a). Without
	// __grid_constant__, the compiler would copy EpArgs to the stack before it passes EpArgs on by reference.
	source string

	// entry returns the name of the entry point. If entry is nil, the entry point has the name of the kernel. A config
	// that sends in one launch and receives in a second one has two entry points. Their names are the result of entry
	// with "_async" or "_wait" added.
	entry func(ep.Problem, ep.Config) string

	// shared returns the dynamic shared memory of each block, in bytes. Nil means none.
	shared func(ep.Problem, ep.Config) int

	// State is the memory through which the ranks exchange tokens. A dispatch and the combine that returns its tokens
	// have the same State.
	State State

	// stateOf is set if not all configs of the kernel use the same memory. It returns the memory of one config. If
	// stateOf is nil, all configs use State.
	stateOf func(ep.Config) State

	// defines returns preprocessor definitions (NAME=VALUE) for the parameters that are fixed when the device code is
	// compiled. problemDefines adds the definitions for the problem. Kernels with the same source and the same
	// definitions share one device binary. So leave out definitions that the entry point does not read.
	defines func(ep.Config) []string

	// dispatch is set only for a combine kernel. A combine that is timed or verified alone needs a dispatch before it.
	// The function returns the config of this dispatch. The dispatch must have the same State as the combine.
	dispatch func(ep.Machine, ep.Problem, ep.Config) ep.Config

	// compare says how far the output may be from the output of the reference implementation in package ref. With the
	// zero value, the output of a dispatch must have the same bytes, and the output of a combine must be within the error
	// bound of package ref.
	compare ref.Compare

	// places reports whether other ranks write the output rows of a dispatch. The output must then lie on the symmetric
	// heap.
	places func(ep.Config) bool
}

// Declarations lists the kernels that one process can run on all GPUs of a host. The order matters: for each operation
// and output layout, other configs are compared with the default config of the first kernel in this list.
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

// HostDeclarations lists the kernels that also send tokens to other hosts. They need one process for each GPU. A process
// that uses all GPUs of a host cannot run them, so Declarations does not list them.
func HostDeclarations() []Declaration {
	return []Declaration{dispatchHosts(), combineHosts()}
}

// State describes the memory that stays between calls: regions of the symmetric heap, and counters that each rank has
// for itself. The dispatches that use one state are numbered, and so are its combines. EpArgs.round tells a kernel the
// number of its call.
type State struct {
	Name string

	// extends is the name of a smaller state, or "". The regions of the smaller state are the first regions of this
	// state. So a dispatch that is declared with the smaller state can also run in the memory of this state.
	extends string

	// anyDType is true if consecutive calls may use this memory for tokens of different dtypes. The size of a region may
	// depend on the dtype. Such a region must then have Halves set, or must hold only data of a single call.
	anyDType bool

	// Regions lists the regions. The device code has an enum in the same order, whose values are the indices of
	// EpArgs.region. Each region starts on a 256-byte boundary.
	Regions func(ep.Problem) []Region

	// Counters returns the number of int32 words to which EpArgs.counters points. Word 0 is the abort word: a kernel
	// that finds it set stops waiting and returns.
	Counters func(ep.Problem) int
}

// onlyAbort is the function State.Counters for a state that has no counter but the abort word.
func onlyAbort(ep.Problem) int { return 1 }

// StateOf returns the state that the calls of a config use.
func (f Declaration) StateOf(c ep.Config) State {
	if f.stateOf == nil {
		return f.State
	}
	return f.stateOf(c)
}

// Of returns the state for micro-batch 0 or 1. Calls of the two micro-batches can run at the same time, so each
// micro-batch has its own memory.
func (s State) Of(micro int) State {
	if micro > 0 {
		s.Name += "-second"
	}
	return s
}

// serves reports whether s is the other state or extends it.
func (s State) serves(other State) bool { return other.Name == s.Name || other.Name == s.extends }

// Part returns the name under which the heap holds one region of s, or its counters.
func (s State) Part(name string) string { return s.Name + "." + name }

// Region is a part of the symmetric heap. It has the same offset and size on every rank.
type Region struct {
	Name  string
	Bytes int64
	Fill  byte // the value of every byte before the first call and after a fault: 0x00 or 0xff

	// Halves is true if each call uses only one half of the region. The number of the call decides which half. If the
	// state has anyDType, the middle of the region is at the same offset for every dtype. Two calls that use different
	// halves then share no byte, even if their tokens have different dtypes.
	Halves bool

	// Area is the name of memory that regions of several states have in common, or "". All states with a region in
	// AreaReturn number their combines in one common sequence.
	Area string
}

// The combines of the states llState and polledState (see ll.go) use these areas. Such a combine polls AreaReturn until
// other ranks have written their data there. Between two calls, all bits of AreaReturn are ones.
const (
	AreaReturn  = "return"  // [call number % 2][max_tokens][max(ranks, topk)][hidden] BF16
	AreaStarted = "started" // [ranks] u32: the number of the last combine that each rank began
)

// in returns r with Area set.
func (r Region) in(area string) Region {
	r.Area = area
	return r
}

// halves returns r with Halves set.
func (r Region) halves() Region {
	r.Halves = true
	return r
}

// Zeroed returns a region in which all bits start as zeros.
func Zeroed(name string, bytes int64) Region { return Region{Name: name, Bytes: bytes} }

// Poisoned returns a region in which all bits start as ones. Read as floats of 8, 16 or 32 bits, they are NaN. No index,
// count or flag has all bits set.
func Poisoned(name string, bytes int64) Region { return Region{Name: name, Bytes: bytes, Fill: 0xff} }
