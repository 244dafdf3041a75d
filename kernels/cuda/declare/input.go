package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// inputParam declares the dtype of the caller's tokens. A time with fp8 is never compared with a
// time with bf16, because with fp8 the caller does the cast.
func inputParam() kernels.Param {
	q := speedParam(kernels.Compile, "input", "dtype of the caller's tokens: bf16, which the kernel casts, or fp8 with float scales [tokens, hidden/128], which the caller cast", "", "bf16", "bf16", "fp8")
	q.Class, q.Before = kernels.Hook, "bf16"
	q.Outside = map[ep.Value]string{"fp8": "cast"}
	return q
}

// TakesCast reports whether a dispatch takes tokens that its caller cast.
func TakesCast(dispatch ep.Config) bool { return dispatch.Str("input") == "fp8" }

// MayTakeCast reports whether the kernel of this dispatch config has the parameter input, and so can take
// tokens that its caller cast.
func MayTakeCast(dispatch ep.Config) bool {
	_, ok := dispatch.Values["input"]
	return ok
}

func defineInput(c ep.Config) string { return Define("EP_RAW", Bit(TakesCast(c))) }

func checkInput(p ep.Problem, c ep.Config) error {
	if TakesCast(c) && p.Dispatch != ep.FP8 {
		return fmt.Errorf("input: tokens that the caller cast to fp8 cannot be sent as %s; use input=bf16", p.Dispatch)
	}
	return kernels.CheckWord(c, "input", "bf16", "fp8")
}
