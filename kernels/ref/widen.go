package ref

import (
	"encoding/binary"
	"math"

	"github.com/epbench/epbench/tune/ep"
)

// widen enlarges the bounds of a sum by what elements and scales that are
// steps codes off the oracle's change in it.
func (o *Oracle) widen(s Sum, rank, token, steps int) {
	p := o.w.Problem
	if p.Dispatch == ep.BF16 {
		return
	}
	var gain float64
	for _, t := range o.terms(rank, token) {
		gain += math.Abs(float64(t.weight) * float64(t.gain))
	}
	if p.SharedExpert && o.inSlice(rank, token) {
		gain += float64(Gain(Shared))
	}
	row := o.Token(o.w.Batch(rank), token)
	for c := range s.Bound {
		x, off := o.uncertain(row, c)
		off *= float64(steps)
		s.Bound[c] += gain * (off + 2*bf16Unit*(x+off))
	}
}

// uncertain is the magnitude of a delivered element, and how far one code up
// or down of it and of its scale moves it.
func (o *Oracle) uncertain(row Row, c int) (x, off float64) {
	l := o.Encoding()
	decode, top := E2M1ToFloat, 7
	scale, scaleStep := 0., 0.
	switch l.DType {
	case ep.FP8:
		decode, top = E4M3ToFloat, 0x7e
		scale = float64(math.Float32frombits(binary.LittleEndian.Uint32(row.Scales[c/l.Group*4:])))
		scaleStep = 1e-6
	case ep.MXFP4:
		scale = float64(E8M0ToFloat(row.Scales[c/l.Group]))
	case ep.NVFP4:
		scale = float64(E4M3ToFloat(row.Scales[c/l.Group])) / float64(o.global)
		scaleStep = 1. / 8
	}
	at := code(l, row.Payload, c) &^ signBit(l.DType)
	v := float64(decode(byte(at)))
	step := float64(decode(byte(min(at+1, top)))) - v
	if at > 0 {
		step = max(step, v-float64(decode(byte(at-1))))
	}
	return v * scale, (step + (v+step)*scaleStep) * scale
}
