package ref

import (
	"math"

	"github.com/epbench/epbench/tune/ep"
)

// Clamp is the clamped SwiGLU of gpt-oss: gate' = min(gate, Limit),
// up' = clamp(up, -Limit, Limit), (up'+1) * gate' * sigmoid(Alpha*gate').
type Clamp struct{ Limit, Alpha float32 }

// Silu returns gate/(1+exp(-gate)) * up in float64.
func Silu(gate, up float32) float64 {
	return float64(gate) / (1 + math.Exp(-float64(gate))) * float64(up)
}

// Apply returns the clamped variant of Silu.
func (c Clamp) Apply(gate, up float32) float64 {
	g := float64(min(gate, c.Limit))
	u := float64(min(max(up, -c.Limit), c.Limit))
	return (u + 1) * g / (1 + math.Exp(-float64(c.Alpha)*g))
}

// Activation describes the SwiGLU that a kernel computes before it quantizes.
type Activation struct {
	Interleaved bool // gate0, up0, gate1, ...
	Clamp       *Clamp
}

// ActivationOf returns the activation of a config.
func ActivationOf(c ep.Config) Activation {
	how := Activation{Interleaved: c.Str("columns") == "interleaved"}
	if c.Str("clamp") == "gpt-oss" {
		how.Clamp = GptOss()
	}
	return how
}

// GptOss returns the clamp of gpt-oss-120b and gpt-oss-20b.
func GptOss() *Clamp { return &Clamp{Limit: 7, Alpha: 1.702} }

// Row returns the D activated values of a row of 2*D BF16 values.
func (a Activation) Row(in []uint16) []float64 {
	d := len(in) / 2
	out := make([]float64, d)
	for i := range out {
		gate, up := in[i], in[d+i]
		if a.Interleaved {
			gate, up = in[2*i], in[2*i+1]
		}
		if a.Clamp != nil {
			out[i] = a.Clamp.Apply(BF16ToFloat(gate), BF16ToFloat(up))
		} else {
			out[i] = Silu(BF16ToFloat(gate), BF16ToFloat(up))
		}
	}
	return out
}

// Narrow rounds to float32, as kernels do before they quantize.
func Narrow(z []float64) []float32 {
	out := make([]float32, len(z))
	for i, v := range z {
		out[i] = float32(v)
	}
	return out
}
