package curate

import (
	"fmt"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func TestSplit(t *testing.T) {
	whole := row(ep.Even, 1, 100, 128)
	whole.Evidence.Tokens, whole.Evidence.Between, whole.Evidence.TimedAt = []int{1, 4, 16, 64}, []int{4}, 64
	whole.Evidence.Gain, whole.Evidence.Median = 1.5, 64e-6
	single := row(ep.Skewed, 1, 100, 128)
	tab := sealed(whole, single)
	got := Split(tab, func(r table.Row, tokens int) (Timing, bool) {
		return Timing{Median: float64(tokens) * 1e-6, Gain: 2, GainLow: 1.9, GainHigh: 2.1, Rounds: 30}, tokens == 1 || tokens == 16
	})
	var parts []string
	for _, r := range got.Rows {
		if r.Key.Routing == ep.Even {
			e := r.Evidence
			parts = append(parts, fmt.Sprintf("%d-%d %v %v at %d: %g us, %g", r.Lo, r.Hi, e.Tokens, e.Between, e.TimedAt, 1e6*e.Median, e.Gain))
		}
	}
	want := []string{"1-8 [1 4] [4] at 1: 1 us, 2", "9-32 [16] [] at 0: 16 us, 2", "33-100 [64] [] at 0: 64 us, 1.5"}
	if fmt.Sprint(parts) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", parts, want)
	}
	if len(got.Rows) != 4 || got.Rows[3].Key.Routing != ep.Skewed || got.Rows[3].Hi != 100 || len(tab.Rows) != 2 || len(tab.Rows[0].Evidence.Tokens) != 4 {
		t.Errorf("%d rows; the table before has %d", len(got.Rows), len(tab.Rows))
	}
	if err := got.Seal(); err != nil {
		t.Error(err)
	}
}
