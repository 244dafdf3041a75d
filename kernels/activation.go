package kernels

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// ActivationParams returns the parameters that every activation kernel has.
func ActivationParams() []Param {
	return []Param{
		{Name: "columns", Doc: "split: the input has all gates, then all ups; interleaved: gate and up in turn", Values: []ep.Value{"split", "interleaved"},
			Default: "split", Binding: Compile, Class: Hook},
		{Name: "clamp", Doc: "none; gpt-oss: gate at most 7, up from -7 to 7, then (up+1) * gate * sigmoid(1.702 * gate)",
			Values: []ep.Value{"none", "gpt-oss"}, Default: "none", Binding: Compile, Class: Hook},
	}
}

// CheckActivation checks the values of ActivationParams and the hidden size of an activation.
func CheckActivation(p ep.Problem, c ep.Config) error {
	if p.Dispatch == ep.NVFP4 && p.Hidden%64 != 0 {
		return fmt.Errorf("hidden: %d is not a multiple of 64 (four nvfp4 scales of 16 elements each); pad it to %d", p.Hidden, (p.Hidden+63)/64*64)
	}
	return cmp.Or(CheckWord(c, "columns", "split", "interleaved"), CheckWord(c, "clamp", "none", "gpt-oss"))
}
