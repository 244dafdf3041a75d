package ref

import (
	"math"

	"github.com/epbench/epbench/tune/plan"
)

// widen enlarges the bounds of a sum by what elements and scales that are
// steps codes off the oracle's change in it.
func (o *Oracle) widen(s Sum, rank, token, steps int) {
	p := o.w.Problem
	if p.Dispatch == plan.BF16 {
		return
	}
	var gain float64
	for _, t := range o.terms(rank, token) {
		gain += math.Abs(float64(t.weight) * float64(t.gain))
	}
	if p.SharedExpert && o.inSlice(rank, token) {
		gain += float64(Gain(Shared))
	}
	l := o.Format()
	row := o.Token(o.w.Batch(rank), token)
	for c, x := range Dequantize(p.Dispatch, row, p.Hidden, o.global) {
		off := float64(steps) * gap(p.Dispatch, code(l, row.Payload, c), math.Abs(float64(x)))
		s.Bound[c] += gain * (off + 2*bf16Unit*(math.Abs(float64(x))+off))
	}
}

// gap is how far one code up or down moves a dequantized value x, the scale
// moving along where it is coded too.
func gap(f plan.Format, code int, x float64) float64 {
	table, magnitude := E4M3ToFloat, code&0x7f
	if f != plan.FP8 {
		table, magnitude = E2M1ToFloat, code&7
	}
	v := float64(table(byte(magnitude)))
	up := float64(table(byte(min(magnitude+1, len(e2m1)-1))))
	if f == plan.FP8 {
		up = float64(table(byte(min(magnitude+1, 0x7e))))
	}
	scale := 1.0
	if v > 0 {
		scale = x / v
	}
	g := math.Abs(up-v) * scale
	if magnitude > 0 {
		g = max(g, (v-float64(table(byte(magnitude-1))))*scale)
	}
	if f == plan.NVFP4 {
		g += x / 8
	}
	return g + 2e-6*x
}
