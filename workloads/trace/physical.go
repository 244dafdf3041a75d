package trace

import (
	"fmt"
	"io"
	"slices"
)

// SGLang with redundant experts records physical experts, of which several can
// be replicas of one logical expert. A trace is of logical experts, which is
// what the router selects. The dump holds a map, [layers, physical experts].
var (
	physicalNames = []string{"global_physical_count", "topk_ids_of_layer"}
	mapNames      = []string{"last_physical_to_logical_map", "physical_to_logical_map"}
)

// toLogical makes r read logical experts where main is of physical ones and the
// archive has a map.
func (r *Reader) toLogical(main *array, all []*array, o Options) error {
	var maps []*array
	for _, name := range mapNames {
		maps = append(maps, named(all, name)...)
	}
	if len(maps) == 0 || !slices.Contains(physicalNames, main.name) {
		return nil
	}
	m := maps[len(maps)-1]
	rows, err := newRows([]*array{m}, Counts, o, false)
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	logical, err := rows.sum()
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	for p, e := range logical {
		if e >= MaxExperts {
			return fmt.Errorf("%s: physical expert %d is logical expert %d, outside 0 to %d", m.name, p, e, MaxExperts-1)
		}
	}
	if r.Kind == Counts {
		r.counts = foldCounts(r.counts, m.name, logical)
	} else {
		r.next = foldIDs(r.next, r.TopK, m.name, logical)
	}
	return nil
}

// foldCounts adds the counts of replicas up.
func foldCounts(read func() ([]int64, error), name string, logical []int64) func() ([]int64, error) {
	return func() ([]int64, error) {
		counts, err := read()
		if err != nil {
			return nil, err
		}
		if len(counts) != len(logical) {
			return nil, fmt.Errorf("%d physical experts were counted and %s has %d", len(counts), name, len(logical))
		}
		out := make([]int64, slices.Max(logical)+1)
		for p, n := range counts {
			out[logical[p]] += n
		}
		return out, nil
	}
}

func foldIDs(read func([]int32, []float32) (int, error), k int, name string, logical []int64) func([]int32, []float32) (int, error) {
	return func(ids []int32, weights []float32) (int, error) {
		n, err := read(ids, weights)
		if err != nil && err != io.EOF {
			return n, err
		}
		for i, p := range ids[:n*k] {
			if int(p) >= len(logical) {
				return 0, fmt.Errorf("physical expert %d is outside the %d of %s", p, len(logical), name)
			}
			if p >= 0 {
				ids[i] = int32(logical[p])
			}
		}
		return n, err
	}
}
