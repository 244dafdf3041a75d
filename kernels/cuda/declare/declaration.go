// Package declare says which CUDA kernels exist: their parameters, which configs are
// legal, what a config launches, and how its memory is laid out. It is pure and links no
// driver, so that a host without a GPU can plan, check and pack.
package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// family is one kernel of one op: what is swept, and how a config becomes
// device code and launches. All functions are pure. A family has a file of
// its own, family_NAME.go, and one line in families.
type Declaration struct {
	Kernel kernels.Kernel

	// source is the file under native/kernels that holds the entry points,
	// such as "ep/dispatch.cuh". Includes are spelled from native/kernels or
	// native/include ("common/ptx.cuh", "ep_args.h"), never relative to the
	// including file. They never name a CUDA header, which a GPU host lacks.
	// Entries are EP_ENTRY(threads, 1) name(const __grid_constant__ EpArgs a):
	// a plain EpArgs passed on by reference is copied to the stack first.
	source string

	// state is the memory that the calls work on. A dispatch and the combines
	// that return its tokens share one.
	State State

	// defines are the -D options of the compile-bound parameters, spelled
	// NAME=VALUE, besides those of problemDefines. Equal source and defines
	// share one device binary, so leave out what an entry does not read.
	defines func(ep.Config) []string

	// launches are the kernels of one call, in order, on every rank.
	Launches func(ep.Problem, ep.Config) []Launch

	// dispatch is the dispatch config that runs before a combine that is
	// timed or verified alone; it uses the same state. Nil on dispatch families.
	dispatch func(ep.Machine, ep.Problem, ep.Config) ep.Config

	// compare says how far the output may be from the oracle's. Nil demands
	// the oracle's bytes of dispatch and its bound of combine.
	compare func(ep.Config) ref.Compare

	// places says that peers write a call's output rows, which must then lie on
	// the symmetric heap. Dispatches only.
	places bool

	// together says that the first of several launches receives too: a call has no
	// phases, and holds SMs until everything has arrived.
	Together bool

	// consumes says that a combine uses up what dispatch left, so that timing
	// it alone needs an untimed dispatch before every call.
	Consumes bool
}

// state is memory that calls leave for each other: regions of the symmetric
// heap, counters, and two call numbers behind EpArgs.round, one an op.
type State struct {
	Name string

	// extends names the state whose regions come first in this one, "" where there is
	// none. Its dispatches run in either.
	extends string

	// regions are in the order of the state's device-side enum (index into
	// EpArgs.region). Each starts on a 256-byte boundary, at the same offset
	// on every rank.
	Regions func(ep.Problem) []Region

	// counters is the number of int32 words behind EpArgs.counters, with
	// word 0, the abort word.
	Counters func(ep.Problem) int
}

// of is the state of a micro-batch: a second one in flight has memory of its own.
func (s State) Of(lane int) State {
	if lane > 0 {
		s.Name += "-second"
	}
	return s
}

// serves reports whether calls of another state find their memory in this one.
func (s State) serves(other State) bool { return other.Name == s.Name || other.Name == s.extends }

// part is the name of a part of the state's memory in the heap.
func (s State) Part(name string) string { return s.Name + "." + name }

// Region is a part of the symmetric heap, the same on every rank.
type Region struct {
	Name  string
	Bytes int64
	Fill  byte // 0x00 or 0xff, written at set-up and after a fault
}

// Zeroed declares a region that starts as zeros.
func Zeroed(name string, bytes int64) Region { return Region{name, bytes, 0} }

// Poisoned declares a region that starts as ones: NaN in every float dtype, and a value
// that no index, count or flag has.
func Poisoned(name string, bytes int64) Region { return Region{name, bytes, 0xff} }

// launch is one kernel of a call.
type Launch struct {
	Entry  string // extern "C" __global__ name
	Grid   int    // blocks; all must be resident at once
	Block  int    // threads
	Shared int    // bytes of dynamic shared memory
	PDL    bool   // programmatic dependent launch
	Params LaunchParams
}

// launchParams are the launch-bound fields of EpArgs, by the names they have
// there.
type LaunchParams struct {
	SMs, WaitSMs, CountSMs, TileTokens, ChunkBytes int
	Own                                            any // combineParams, llParams, a litmus's, or nil
}

// combineParams and llParams are the launch parameters that only a few
// kernels have.
type (
	CombineParams struct{ Rotate bool }
	LLParams      struct{ Receivers, PauseNs int }
)

// families lists every kernel of this backend. The first of an op that serves a layout
// carries the default that every gain is measured against.
func Declarations() []Declaration {
	return []Declaration{
		dispatchEP(),
		combineEP(),
		dispatchLL(),
		combineLL(),
		combineLLPartial(),
		dispatchLLIDs(),
		dispatchLLSplit(),
		combineLLSplit(),
		dispatchFinal(),
		dispatchFinalHome(),
		combineFinal(),
		combineFinalPartial(),
		combineFinalPolled(),
		dispatchRank(),
		dispatchRankHome(),
		combineRank(),
		dispatchMasked(),
		dispatchMaskedIDs(),
		combineMasked(),
		dispatchMaskedSplit(),
		combineMaskedSplit(),
		dispatchExpand(),
		combineExpand(),
		fusedSilu(),
	}
}
