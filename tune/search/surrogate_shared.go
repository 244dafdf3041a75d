package search

import (
	"maps"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// sharedSurrogate predicts times with one surrogate (a Gaussian process) for all kernels. A parameter has similar
// effects in all kernels, so a search needs fewer measurements.
type sharedSurrogate struct {
	surrogate    *surrogate
	names        []string              // parameters with more than one value
	values       map[string][]ep.Value // by parameter: its values in all kernels, ascending
	kernels      map[string]int
	coords       map[int][]float64
	logDensities []float64 // of each known point, see leaveOneOut
	kernelOf     []string  // of each known point
}

func newSharedSurrogate(s *Space, kernels []*kernelModel, usual priors) *sharedSurrogate {
	out := &sharedSurrogate{values: map[string][]ep.Value{}, kernels: map[string]int{}, coords: map[int][]float64{}}
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
	var counts []int
	for _, name := range out.names {
		out.values[name] = slices.SortedFunc(maps.Keys(found[name]), ep.Value.Compare)
		counts = append(counts, len(out.values[name]))
	}
	out.surrogate = newCrossKernelSurrogate(counts, usual)
	return out
}

// coordinates returns the coordinates of a point. There is one for each parameter: the scaled index of the point's
// value in the sorted values of all kernels. The last coordinate is the kernel's number.
func (h *sharedSurrogate) coordinates(s *Space, point int) []float64 {
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
	x[len(h.names)] = float64(h.kernels[s.Design(c)])
	h.coords[point] = x
	return x
}

func (h *sharedSurrogate) update(s *State, expected prior, least float64) {
	known := s.Ranked(s.Measured())
	at := make([][]float64, len(known))
	h.kernelOf = make([]string, len(known))
	for n, i := range known {
		at[n], h.kernelOf[n] = h.coordinates(s.Space, i), s.Space.Design(s.Space.Config(i))
	}
	h.surrogate.prior = expected
	h.surrogate.update(at, s.warped(known, least))
	h.logDensities = h.surrogate.leaveOneOut()
}

// weight compares the shared surrogate with a kernel's own surrogate. It returns the posterior probability of the
// shared surrogate.
func (h *sharedSurrogate) weight(k *kernelModel) float64 {
	ahead := 0.0
	for n, l := range h.logDensities {
		if h.kernelOf[n] == k.kernel {
			ahead += l
		}
	}
	for _, l := range k.surrogate.leaveOneOut() {
		ahead -= l
	}
	return 1 / (1 + math.Exp(-ahead))
}

func (h *sharedSurrogate) mix(s *State, k *kernelModel, own []option) []option {
	weight := h.weight(k)
	out := k.scoreFresh(s, h.surrogate, func(point int) []float64 { return h.coordinates(s.Space, point) })
	place := map[int]int{}
	for i := range out {
		out[i].improvement *= weight
		place[out[i].point] = i
	}
	for _, o := range own {
		o.improvement *= 1 - weight
		if i, ok := place[o.point]; ok {
			out[i].improvement += o.improvement
		} else {
			out = append(out, o)
		}
	}
	return out
}
