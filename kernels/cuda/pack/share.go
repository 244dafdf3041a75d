package pack

import (
	"slices"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

func (b *builder) group(kind, key string) uint16 {
	return uint16(b.once(kind+" "+key, func() int {
		b.groups[kind]++
		return b.groups[kind]
	}))
}

// area returns the number of the memory area that a region shares with other regions, or 0 if it shares none. A region
// whose halves are used in turn (Halves) shares only if its middle is aligned.
func (b *builder) area(s declare.CallSpec, r declare.Region) uint16 {
	switch {
	case r.Halves && r.Bytes/2%heapAlign != 0, !s.AnyDType && r.Area == "":
		return 0
	case r.Area != "":
		return b.group("area", r.Area)
	}
	return b.group("area", s.State+"."+r.Name)
}

// numbers returns the ids of a state's two call counters: for dispatch and for combine. States with the same id share a
// counter. The id 0 means that the state has a counter for itself.
func (b *builder) numbers(s declare.CallSpec) (out [2]uint16) {
	if s.AnyDType {
		out[0] = b.group("numbers", string(ep.Dispatch)+" "+s.State)
		out[1] = b.group("numbers", string(ep.Combine)+" "+s.State)
	}
	if slices.ContainsFunc(s.Regions, func(r declare.Region) bool { return r.Area == declare.AreaReturn }) {
		out[1] = b.group("numbers", declare.AreaReturn)
	}
	return out
}
