package pack

import (
	"fmt"
	"slices"
)

// uncoveredNotes returns a note if token counts or routings without a row need more than half of a call's device memory.
// For these the pack has the default config. In layout expert its kernels need several times the memory of the others.
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

// coveredOnly leaves out the runs without a row. It keeps those for split phases, because few tables have rows for these.
// It returns false if no run has a row.
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
