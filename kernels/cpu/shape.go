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
	groups   int  // groups of output rows
	maxRows  int  // capacity of the output in rows
	room     int  // rows reserved for each group, or 0
	byRank   bool // a rank receives each token once
	rowBytes int  // bytes of a combine message
}

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
