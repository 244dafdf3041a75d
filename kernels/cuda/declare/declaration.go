// Package declare describes the CUDA kernels: their parameters, which configs are legal, what a
// config launches, and how its memory is laid out. It links no driver, so that a host without a
// GPU can plan, check and pack.
package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// A Declaration describes one kernel of one op: its parameters, and how a config becomes device
// code and launches. Its functions are pure. Kernels that share sources are declared in one file.
type Declaration struct {
	Kernel kernels.Kernel // Declaration.Check makes the checks of all kernels; Kernel.Check makes those of this kernel

	// ties lists values with which other parameters of the kernel have no meaning, and the values that
	// these parameters must then have.
	ties []tie

	// source is the file under native/kernels that holds the entry points, such as
	// "ep/dispatch.cuh". The paths of its includes begin in native/kernels or native/include
	// ("common/ptx.cuh", "ep_args.h"). It includes no CUDA header, because a GPU host may have
	// none. An entry is spelled EP_ENTRY(threads, 1) name(const __grid_constant__ EpArgs a).
	// Without __grid_constant__, the compiler would copy EpArgs to the stack before it passes
	// EpArgs on by reference.
	source string

	// entry returns the name of the entry point. If a config sends and receives in two launches, the names
	// of its two entry points have the suffixes "_async" and "_wait", which entry does not return. If entry
	// is nil, the entry point has the name of the kernel.
	entry func(ep.Problem, ep.Config) string

	// shared returns the dynamic shared memory of each block, in bytes. Nil means none.
	shared func(ep.Problem, ep.Config) int

	// State is the memory that the calls use. A dispatch and the combines that return its
	// tokens have the same state.
	State State

	// stateOf returns the memory of a config, for a kernel whose configs use different memory. If stateOf
	// is nil, all configs use State.
	stateOf func(ep.Config) State

	// defines returns the -D options of the compile-bound parameters, spelled NAME=VALUE,
	// besides problemDefines. Kernels with equal source and defines share one device
	// binary, so leave out defines that an entry does not read.
	defines func(ep.Config) []string

	// dispatch is set in the declaration of a combine. If the combine is timed or verified alone,
	// a dispatch must run before it. dispatch returns the config of this dispatch, which has the
	// same state as the combine.
	dispatch func(ep.Machine, ep.Problem, ep.Config) ep.Config

	// compare says how far the output may be from the oracle's. The zero value means: the output of a dispatch
	// must equal the oracle's bytes, and the output of a combine must be within the oracle's error bound.
	compare ref.Compare

	// places is true for a dispatch whose output rows are written by other ranks. The output
	// must then lie on the symmetric heap.
	places func(ep.Config) bool
}

// Declarations lists the kernels that one process can run on all GPUs of a host. Every gain is
// measured against the default config of the first kernel that has the op and the layout.
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

// HostDeclarations lists the kernels that cross hosts. They need one process for each GPU. A
// process that has all GPUs of a host cannot run them, so Declarations does not list them.
func HostDeclarations() []Declaration {
	return []Declaration{dispatchHosts(), combineHosts()}
}

// State describes memory through which calls pass data to each other: regions of the symmetric
// heap, and counters. A state also has two call numbers, one for dispatches and one for combines.
// EpArgs.round is the number of the current call.
type State struct {
	Name string

	// extends names another state, whose regions are the first regions of this state. Dispatches
	// of that state can also run in the memory of this state. "" for none.
	extends string

	// anyDType is true if a call may use the same memory as a call before it whose tokens had another dtype.
	// If the size of a region depends on the dtype, the region must then hold the messages of one call only,
	// or must have Halves set.
	anyDType bool

	// Regions lists the regions. An enum in the device code has the same order, and its values are
	// indices of EpArgs.region. Each region starts on a 256-byte boundary, at the same offset on
	// every rank.
	Regions func(ep.Problem) []Region

	// Counters returns the number of int32 words to which EpArgs.counters points. Word 0 is
	// the abort word.
	Counters func(ep.Problem) int
}

// onlyAbort is State.Counters of a state whose only counter is the abort word.
func onlyAbort(ep.Problem) int { return 1 }

// StateOf returns the memory that the calls of a config use.
func (f Declaration) StateOf(c ep.Config) State {
	if f.stateOf == nil {
		return f.State
	}
	return f.stateOf(c)
}

// Of returns the state of micro-batch 0 or 1. Two micro-batches can be in flight at the same
// time; each has its own memory.
func (s State) Of(micro int) State {
	if micro > 0 {
		s.Name += "-second"
	}
	return s
}

// serves reports whether this state includes the memory of the other state.
func (s State) serves(other State) bool { return other.Name == s.Name || other.Name == s.extends }

// Part returns the name that a part of the state's memory has in the heap.
func (s State) Part(name string) string { return s.Name + "." + name }

// Region is a part of the symmetric heap, the same on every rank.
type Region struct {
	Name  string
	Bytes int64
	Fill  byte // 0x00 or 0xff; every byte is set to it at set-up and after a fault

	// Halves is true if a call uses one half of the region. The call number decides which half. If
	// calls of several dtypes use the region, its middle is at the same offset for every dtype. So two
	// calls that use different halves share no byte, whatever their dtypes.
	Halves bool

	// Area names memory that regions of several states share, "" for none. All states with a region in
	// AreaReturn use one sequence of call numbers for their combines.
	Area string
}

// Areas that the combines of llState and polledState share. These combines poll their slots. Between two
// of their calls all slots are empty.
const (
	AreaReturn  = "return"  // [call number % 2][max_tokens][max(ranks, topk)][hidden] BF16, filled with ones
	AreaStarted = "started" // [ranks] u32: the last combine that each rank began
)

// in returns r as a part of an area.
func (r Region) in(area string) Region {
	r.Area = area
	return r
}

// halves returns r with Halves set.
func (r Region) halves() Region {
	r.Halves = true
	return r
}

// Zeroed declares a region that starts as zeros.
func Zeroed(name string, bytes int64) Region { return Region{Name: name, Bytes: bytes} }

// Poisoned declares a region in which all bits start as ones. As a float of 8, 16 or 32 bits this
// is NaN. No index, count or flag has this value.
func Poisoned(name string, bytes int64) Region { return Region{Name: name, Bytes: bytes, Fill: 0xff} }
