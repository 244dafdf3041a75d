package trace

import (
	"fmt"
	"slices"
)

// checkAgainstCounts makes Scan compare the ids of an SGLang record with the counts in the record. SGLang computes
// these counts from the ids (_convert_per_token_to_global_physical_count), so both must agree.
func (r *Reader) checkAgainstCounts(main *array, all []*array, o Options) error {
	counts := named(all, "global_physical_count")
	if r.Kind != IDs || main.name != "topk_ids_of_layer" || len(counts) == 0 {
		return nil
	}
	o.Kind, o.Axes = Counts, nil
	other, err := fromArrays(counts, nil, o)
	if err == nil {
		err = other.toLogical(counts[0], all, o)
	}
	if err != nil {
		return fmt.Errorf("global_physical_count: %w", err)
	}
	r.verify = func(got []int64) error {
		want, err := other.counts()
		if err != nil {
			return fmt.Errorf("global_physical_count: %w", err)
		}
		for e := range max(len(got), len(want)) {
			if a, b := at0(got, e), at0(want, e); a != b {
				return fmt.Errorf("topk_ids_of_layer selects expert %d %d times, but global_physical_count has %d", e, a, b)
			}
		}
		return nil
	}
	return nil
}

func at0(list []int64, i int) int64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// missing returns the ranks that a list lacks, from 0 to its highest rank.
func missing(ranks []int) (out []int) {
	if len(ranks) == 0 {
		return nil
	}
	for r := range slices.Max(ranks) {
		if !slices.Contains(ranks, r) {
			out = append(out, r)
		}
	}
	return out
}
