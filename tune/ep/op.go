package ep

import (
	"fmt"
	"strings"
)

// Op is the operation that is timed.
type Op string

const (
	Dispatch Op = "dispatch" // each rank sends its tokens to the ranks of their experts
	Combine  Op = "combine"  // the experts' outputs are sent back and summed
	Pair     Op = "pair"     // dispatch and combine, timed together

	// Activation is the SwiGLU between an expert's two matrix products. An output row has Problem.Hidden elements of
	// dtype Problem.Dispatch.
	Activation Op = "activation"

	// Layer is a whole MoE layer: dispatch, two matrix products with SwiGLU between them, and combine. Only external
	// programs provide kernels for Layer.
	Layer Op = "layer"
)

// Ops lists every operation.
func Ops() []Op { return append(RowOps(), Layer) }

// RowOps lists the operations for which tables have rows. Add operations only at the end, because exported files store
// indexes into this list.
func RowOps() []Op { return append(Exchanges(), Activation) }

// Exchanges lists the operations in which ranks send each other tokens.
func Exchanges() []Op { return []Op{Dispatch, Combine, Pair} }

// Mode says how the calls of a round are launched. Times of two modes are never compared.
type Mode string

const (
	Graph Mode = "graph" // replay of a captured graph
	Eager Mode = "eager" // one launch per call
	Cold  Mode = "cold"  // like graph, with caches flushed before each call
)

// Modes lists every mode.
func Modes() []Mode { return []Mode{Graph, Eager, Cold} }

// DType is the data type in which a token is sent.
type DType string

const (
	BF16  DType = "bf16"  // no scales
	FP8   DType = "fp8"   // e4m3, one float32 scale per 128 elements
	MXFP4 DType = "mxfp4" // e2m1, one e8m0 scale per 32 elements
	NVFP4 DType = "nvfp4" // e2m1, one e4m3 scale per 16 elements and a global scale
)

// DTypes lists every dtype.
func DTypes() []DType { return []DType{BF16, FP8, MXFP4, NVFP4} }

// ParseOp reads an operation name.
func ParseOp(s string) (Op, error) { return oneOf("op", s, Ops()) }

// ParseMode reads a mode name.
func ParseMode(s string) (Mode, error) { return oneOf("mode", s, Modes()) }

// ParseDType reads a dtype name.
func ParseDType(s string) (DType, error) { return oneOf("dtype", s, DTypes()) }

func oneOf[T ~string](field, s string, known []T) (T, error) {
	return Find(field, s, known, func(k T) string { return string(k) })
}

// Find returns the element of `known` whose name is `name`.
func Find[T any](field, name string, known []T, nameOf func(T) string) (found T, err error) {
	names := make([]string, len(known))
	for i, k := range known {
		if names[i] = nameOf(k); names[i] == name {
			return k, nil
		}
	}
	return found, fmt.Errorf("%s: unknown %q, use one of %s", field, name, strings.Join(names, ", "))
}

// Status says how the measurement of a config ended.
type Status string

const (
	OK            Status = "ok"       // measured, and the output is right
	Illegal       Status = "illegal"  // the kernel refused the config
	CompileFailed Status = "compile"  // does not compile
	LaunchFailed  Status = "launch"   // does not load or start
	Mismatch      Status = "mismatch" // wrong output
	Hang          Status = "hang"     // did not end before its deadline
	Crash         Status = "crash"    // ended its process
	Unstable      Status = "unstable" // times vary too much
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{OK, Illegal, CompileFailed, LaunchFailed, Mismatch, Hang, Crash, Unstable}
}
