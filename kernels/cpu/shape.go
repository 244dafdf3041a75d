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
	local    int  // experts of a rank
	sources  int  // ranks that send to one rank
	groups   int  // row groups of the output
	maxRows  int  // row capacity of the output
	room     int  // fixed rows of each group, 0 if groups follow each other
	byRank   bool // a rank receives a token once
	rowBytes int  // of a combine message
}

// combines reports whether rows return to their tokens.
func (s shape) combines() bool { return s.Op == ep.Combine || s.Op == ep.Pair }

func shapeOf(p ep.Problem) shape {
	l := dtype.Of(p.Dispatch, p.Hidden)
	h := l.Message(p.TopK)
	return shape{
		Problem: p, encoding: l, header: h,
		local: p.LocalExperts(), sources: dtype.Sources(p),
		groups: dtype.Groups(p), maxRows: dtype.MaxRows(p), room: dtype.Capacity(p), byRank: p.Layout.ByRank(),
		rowBytes: 2 * p.Hidden,
	}
}
