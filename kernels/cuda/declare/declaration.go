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
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// A Declaration describes one kernel. Its functions depend on nothing but their arguments.
type Declaration struct {
	// Kernel holds the parameters. Kernel.Check makes only some of the checks: call Declaration.Check instead.
	Kernel kernels.Kernel

	// ties lists parameter values such as mode=split. With such a value, some other parameters have no effect. The tie
	// fixes the values of these other parameters.
	ties []tie

	// source is the file with the entry points (__global__ functions), below native/kernels. It includes no CUDA
	// header, because a host may have only the driver. Entry points take const __grid_constant__ EpArgs: otherwise the
	// compiler copies EpArgs to the stack.
	source string

	// entry lists the parts of the entry point's name, separated by spaces. A part can have a condition:
	// mode=split?PART means PART if mode is split, and !mode=split?PART means PART if mode is not split. An empty entry
	// means the name of the kernel. With mode=split, each of the two launches adds a suffix to the name.
	entry string

	// macros lists the macros of a binary. A macro can have a condition, as in entry. Leave out macros that the entry
	// point does not read: kernels with the same source and macros share one binary. The words mean:
	//
	//	EP_SPLIT                           1
	//	EP_ROWS=rows                       the value of the parameter rows
	//	EP_EPILOGUE=epilogue=scale|bias    1 with epilogue=scale, 2 with epilogue=bias, 0 with any other value
	macros string

	// State describes the memory through which ranks exchange tokens. A dispatch and its combine have the same State.
	// `states` maps a condition to the State of configs for which the condition holds.
	State  State
	states map[string]State

	// places says in which configs a rank writes rows directly to the outputs of other ranks: "" (in none), "always", or
	// a condition such as "rows=home". The outputs must then lie on the symmetric heap.
	places string

	// `values` returns the values of the default config, and `split` returns the values for mode=split. `starts` returns
	// one list of values for each config that every search measures. A list is spelled "mode=split,wait_sms=5/8". Here
	// 5/8 means five eighths of the parameter sms. A list leaves out parameters that keep their own default. Without
	// `values`, Kernel.Default is nil.
	values, split func(setting) string
	starts        func(setting) []string

	// follows names a parameter of a combine. The dispatch before it must have the same value.
	follows string
}

// Declarations lists the kernels that one process can run on all GPUs of a host. The order matters: the first kernel
// for an operation and layout gives the default config.
func Declarations() []Declaration {
	return completed(epKernels(), llKernels(), finalKernels(), rankKernels(), maskedKernels(), activationKernels())
}

// HostDeclarations lists the kernels that also send tokens to other hosts. They need one process for each GPU.
func HostDeclarations() []Declaration { return completed(hostsKernels()) }

func completed(families ...[]Declaration) []Declaration {
	all := slices.Concat(families...)
	for i := range all {
		all[i] = all[i].completed()
	}
	return all
}

// State describes the memory that stays between calls: regions of the symmetric heap, and counters of each rank.
type State struct {
	Name string

	// extends names a smaller state, or "". The regions of the smaller state come first in this state, so that a
	// dispatch of the smaller state can run in this memory too.
	extends string

	// anyDType is true if consecutive calls may have different dtypes. A region whose size depends on the dtype must
	// then not mix the data of two calls. Consecutive calls must use different halves of it (Region.Halves), or no call
	// may leave data in it for the next.
	anyDType bool

	ordered bool // a dispatch always gives its rows the same order
	bits    bool // a combine's output equals the oracle's bit for bit

	// regions lists the regions in the order of EpArgs.region. Nil means none.
	regions func(sizes) []Region

	// Counters returns the number of int32 words at EpArgs.counters. Word 0 is the abort word: a kernel that finds it
	// set stops waiting. Nil means that there is no other word.
	Counters func(ep.Problem) int
}

// areaState returns a state with a single region, called area.
func areaState(name string, bytes int64, counters int) State {
	regions := func(sizes) []Region { return []Region{Zeroed("area", bytes)} }
	return State{Name: name, regions: regions, Counters: func(ep.Problem) int { return counters }}
}

// RegionsFor returns the regions for a problem, in the order of EpArgs.region.
func (s State) RegionsFor(p ep.Problem) []Region {
	if s.regions == nil {
		return nil
	}
	return s.regions(sizesOf(p))
}

func (s State) counters(p ep.Problem) int {
	if s.Counters == nil {
		return 1
	}
	return max(s.Counters(p), 1)
}

// StateOf returns the state that the calls of a config use.
func (f Declaration) StateOf(c ep.Config) State {
	for condition, s := range f.states {
		if holds(c, condition) {
			return s
		}
	}
	return f.State
}

// Of returns the state for micro-batch 0 or 1. Each micro-batch has its own memory, because calls of
// both overlap in time.
func (s State) Of(micro int) State {
	if micro > 0 {
		s.Name += "-second"
	}
	return s
}

// serves reports whether s is the state `other` or extends it.
func (s State) serves(other State) bool { return other.Name == s.Name || other.Name == s.extends }

// Part returns the name that a region of s has on the heap. The name "counters" stands for the counters of s.
func (s State) Part(name string) string { return s.Name + "." + name }

// Region is a part of the symmetric heap. It has the same offset and size on every rank.
type Region struct {
	Name  string
	Bytes int64
	Fill  byte // initial value of every byte: 0x00 or 0xff

	// Halves is true if consecutive calls use different halves of the region. With State.anyDType, the second half
	// begins at the same offset for every dtype. So the halves do not overlap, even if consecutive calls have different
	// dtypes.
	Halves bool

	// Area names memory that regions of several states have in common, or "". All states with a region in
	// AreaReturn share one counter, which counts the combines of all these states.
	Area string
}

// The combines of llState and polledState (see ll.go) poll AreaReturn. Between two calls, all bits of
// this memory are ones.
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
