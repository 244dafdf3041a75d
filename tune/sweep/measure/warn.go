package measure

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// A straggler is a rank whose time in a round is more than lateFactor times the median time of the block's rounds.
const lateFactor = 5

func stragglerWarnings(r *record.Result) []string {
	times := r.Rounds()
	if len(times) < 3 {
		return nil
	}
	late := map[int]int{}
	limit := lateFactor * stat.Median(times)
	for _, ranks := range r.Seconds {
		rank := slices.Index(ranks, slices.Max(ranks))
		if ranks[rank] > limit {
			late[rank]++
		}
	}
	var out []string
	for rank := range r.Seconds[0] {
		if n := late[rank]; n > 0 {
			out = append(out, fmt.Sprintf("straggler: rank %d held up %d of %d rounds; these took more than %d times the median", rank, n, len(times), lateFactor))
		}
	}
	return out
}

// ThrottleWarning warns of the first rank whose clock fell, or returns "".
func (r *Runner) ThrottleWarning() string {
	for rank := 0; ; rank++ {
		var mhz []float64
		for _, ranks := range r.mhz {
			if rank < len(ranks) {
				mhz = append(mhz, ranks[rank])
			}
		}
		if mhz == nil {
			return ""
		}
		if w := stat.ClockWarning(mhz); w != "" {
			return fmt.Sprintf("rank %d: %s", rank, w)
		}
	}
}

func appendNew(list []string, warnings ...string) []string {
	for _, w := range warnings {
		if !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}
