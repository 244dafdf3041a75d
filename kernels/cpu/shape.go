package cpu

import (
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// shape holds the sizes that all ranks share.
type shape struct {
	ep.Problem
	encoding dtype.Encoding
	header   dtype.Header
	local    int // experts of a rank
	sources  int // ranks that send to one rank
	groups   int // row groups of the output
	maxRows  int // row capacity of the output
	rowBytes int // of a combine message
	weights  int // offset of the router weights in a de-duplicated message
	dedup    int // bytes of a de-duplicated message
}

func shapeOf(p ep.Problem) shape {
	l := dtype.Of(p.Dispatch, p.Hidden)
	h := l.Message(p.TopK)
	s := shape{
		Problem: p, encoding: l, header: h,
		local: p.LocalExperts(), sources: p.Ranks,
		groups: dtype.Groups(p), maxRows: dtype.MaxRows(p),
		rowBytes: 2 * p.Hidden,
		weights:  h.Bytes,
		dedup:    h.Bytes + (4*p.TopK+dtype.Align-1)/dtype.Align*dtype.Align,
	}
	if p.SkipA2A {
		s.sources = 1
	}
	return s
}
