package pack

import (
	"fmt"
	"slices"
)

// uncoveredNotes returns a note if default configs alone need more than half of a call's device memory. A token count
// or routing without a row gets the default config. In layout expert, default kernels need several times the memory of
// tuned kernels.
func uncoveredNotes(r Request, lookups []Lookup, whole *builder) ([]string, error) {
	covered, some := coveredOnly(lookups)
	if !some {
		return nil, nil
	}
	b := newBuilder(r)
	if err := b.addAll(covered); err != nil {
		return nil, err
	}
	all := whole.sizes().HeapBytes(1)
	rest := all - b.sizes().HeapBytes(1)
	if 2*rest <= all {
		return nil, nil
	}
	return []string{fmt.Sprintf("%.1f of %.1f GiB of device memory are only for the default configs of token counts or routings without a row; "+
		"add rows for these with sweep --tokens and --routing", gibibytes(rest), gibibytes(all))}, nil
}

// coveredOnly returns the lookups without the runs that have no row. It keeps all runs of Halves, because few tables
// have rows for them. It also returns whether any other run has a row.
func coveredOnly(lookups []Lookup) (out []Lookup, some bool) {
	for _, l := range lookups {
		if l.Purpose != Halves {
			l.Runs = slices.DeleteFunc(slices.Clone(l.Runs), func(r Run) bool { return len(r.Rows) == 0 })
			some = some || len(l.Runs) > 0
		}
		out = append(out, l)
	}
	return out, some
}

func gibibytes(n int64) float64 { return float64(n) / (1 << 30) }
