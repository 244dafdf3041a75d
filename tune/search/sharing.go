package search

import (
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// sharing is what kernels say about each other: one process over the points of all. Kernels
// name the same parameters for the same things, so that what blocks or threads do in one is
// a first guess for the next. Of a search of 25 points each kernel has two or three to itself.
// Kernels that have nothing in common are found out: see trust.
type sharing struct {
	process *process
	names   []string              // parameters with two values or more, of any kernel
	values  map[string][]ep.Value // all that any kernel has, numbers ascending
	kernels map[string]int
	coords  map[int][]float64
	said    []float64 // log density of each known point, given all others
	of      []string  // kernel of each known point
}

func newSharing(s *Space, kernels []*modelled) *sharing {
	out := &sharing{values: map[string][]ep.Value{}, kernels: map[string]int{}, coords: map[int][]float64{}}
	found := map[string]map[ep.Value]bool{}
	for i, k := range kernels {
		out.kernels[k.kernel] = i
		for _, axis := range k.axes {
			if found[axis.Name] == nil {
				found[axis.Name] = map[ep.Value]bool{}
				out.names = append(out.names, axis.Name)
			}
			for _, v := range axis.Values {
				found[axis.Name][v] = true
			}
		}
	}
	out.names = slices.DeleteFunc(out.names, func(name string) bool { return len(found[name]) < 2 })
	for _, name := range out.names {
		out.values[name] = sortedValues(found[name])
	}
	out.process = newShared(len(out.names))
	return out
}

// at are the coordinates of a point: the place of each value among those of all kernels, and
// the kernel. A parameter that the kernel lacks is in the middle.
func (h *sharing) at(s *Space, point int) []float64 {
	if x, ok := h.coords[point]; ok {
		return x
	}
	c := s.Config(point)
	x := make([]float64, len(h.names)+1)
	for a, name := range h.names {
		most := float64(len(h.values[name]) - 1)
		place := float64(slices.Index(h.values[name], c.Values[name]))
		if place < 0 {
			place = most / 2
		}
		x[a] = place / math.Sqrt(most)
	}
	x[len(h.names)] = float64(h.kernels[c.Kernel])
	h.coords[point] = x
	return x
}

// take takes in all that was measured.
func (h *sharing) take(s *State, expected prior, least float64) {
	known := s.Ranked(s.Measured())
	at := make([][]float64, len(known))
	h.of = make([]string, len(known))
	for n, i := range known {
		at[n], h.of[n] = h.at(s.Space, i), s.Space.Config(i).Kernel
	}
	h.process.prior = expected
	h.process.take(at, s.warped(known, least))
	h.said = h.process.foretold()
}

// trust is the weight of the shared process against the kernel's own: that of the two which
// made likelier what was measured of the kernel.
func (h *sharing) trust(k *modelled) float64 {
	ahead := 0.0
	for n, l := range h.said {
		if h.of[n] == k.kernel {
			ahead += l
		}
	}
	for _, l := range k.process.foretold() {
		ahead -= l
	}
	return 1 / (1 + math.Exp(-ahead))
}

// mixed are the fresh points of a kernel with what they are worth by both processes, each
// with its weight.
func (h *sharing) mixed(s *State, k *modelled, own []option) []option {
	trust := h.trust(k)
	out := k.fresh(s, h.process, func(point int) []float64 { return h.at(s.Space, point) })
	place := map[int]int{}
	for i := range out {
		out[i].worth *= trust
		place[out[i].point] = i
	}
	for _, o := range own {
		o.worth *= 1 - trust
		if i, ok := place[o.point]; ok {
			out[i].worth += o.worth
		} else {
			out = append(out, o)
		}
	}
	return out
}
