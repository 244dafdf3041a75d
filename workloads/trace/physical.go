package trace

import (
	"fmt"
	"io"
	"slices"
)

// SGLang, vLLM and vllm-ascend count physical experts, which may be replicas of a logical expert.
// Dumps of SGLang and vLLM hold a map [layers, physical experts] to logical experts. In vLLM's map
// (vllm/distributed/eplb/eplb_state.py), -1 marks a slot without an expert.
var (
	physicalNames = []string{"global_physical_count", "topk_ids_of_layer", "expert_load", "expert_load_window", "moe_load"}
	mapNames      = []string{"last_physical_to_logical_map", "physical_to_logical_map"}
)

// toLogical makes r return logical experts if the archive has a map.
func (r *Reader) toLogical(main *array, all []*array, o Options) error {
	var maps []*array
	for _, name := range mapNames {
		maps = append(maps, named(all, name)...)
	}
	if !slices.Contains(physicalNames, main.name) {
		return nil
	}
	if len(maps) == 0 {
		r.note("%s holds physical experts, and there is no map to logical ones: each replica counts as an expert", main.name)
		return nil
	}
	m := maps[len(maps)-1]
	o.Axes = nil
	logical, err := readMap(m, o)
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	if r.Kind == Counts {
		r.counts = foldCounts(r.counts, m.name, logical)
	} else {
		r.next = foldIDs(r.next, r.TopK, m.name, logical)
	}
	return nil
}

func readMap(m *array, o Options) ([]int32, error) {
	in, err := newRows([]*array{m}, Counts, o)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if in.count != 1 {
		return nil, fmt.Errorf("shape %v: a layer has %d rows, use [layers, physical experts]", m.shape, in.count)
	}
	logical := make([]int32, in.k)
	_, _, elem, err := in.next(1)
	if err != nil {
		return nil, err
	}
	if elem.kind != 'i' && elem.kind != 'u' {
		return nil, fmt.Errorf("experts are of type %s, use integers", elem)
	}
	elem.int32s(logical, in.raw)
	for p, e := range logical {
		if e < -1 || e >= MaxExperts {
			return nil, fmt.Errorf("physical expert %d is logical expert %d, outside 0 to %d", p, e, MaxExperts-1)
		}
	}
	return logical, nil
}

func foldCounts(read func() ([]int64, error), name string, logical []int32) func() ([]int64, error) {
	return func() ([]int64, error) {
		counts, err := read()
		if err != nil {
			return nil, err
		}
		if len(counts) != len(logical) {
			return nil, fmt.Errorf("%d physical experts were counted, but %s has %d", len(counts), name, len(logical))
		}
		out := make([]int64, slices.Max(logical)+1)
		for p, n := range counts {
			if logical[p] >= 0 {
				out[logical[p]] += n
			} else if n > 0 {
				return nil, fmt.Errorf("physical expert %d has %d selections, but %s gives it no logical expert", p, n, name)
			}
		}
		return out, nil
	}
}

func foldIDs(read func([]int32, []float32) (int, error), k int, name string, logical []int32) func([]int32, []float32) (int, error) {
	return func(ids []int32, weights []float32) (int, error) {
		n, err := read(ids, weights)
		if err != nil && err != io.EOF {
			return n, err
		}
		for i, p := range ids[:n*k] {
			if int(p) >= len(logical) {
				return 0, fmt.Errorf("physical expert %d is not among the %d physical experts of %s", p, len(logical), name)
			}
			if p < 0 {
				continue
			}
			if ids[i] = logical[p]; ids[i] < 0 {
				return 0, fmt.Errorf("a token selects physical expert %d, but %s gives it no logical expert", p, name)
			}
		}
		return n, err
	}
}
