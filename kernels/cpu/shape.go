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
	local    int  // number of experts of a rank
	sources  int  // number of ranks that send to one rank
	groups   int  // number of groups of rows in the output
	maxRows  int  // number of rows for which the output has room
	room     int  // number of rows reserved for each group, 0 if a group takes only the rows that it has
	byRank   bool // whether the layout is by rank: a rank receives each token once
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
