package sweep

import (
	"testing"

	"github.com/epbench/epbench/tune/table"
)

// TestRowsNameTheCountOfTheirTimes: a row over several token counts names the count with the smallest gain.
func TestRowsNameTheCountOfTheirTimes(t *testing.T) {
	of := func(tokens int, gain float64) table.Evidence {
		return table.Evidence{Tokens: []int{tokens}, Gain: gain, Median: float64(tokens)}
	}
	least := mergeEvidence([]table.Evidence{of(8, 2), of(16, 1.25)})
	for _, c := range []struct {
		name string
		got  table.Evidence
		at   int
		file int
	}{
		{"one count", mergeEvidence([]table.Evidence{of(8, 2)}), 8, 0},
		{"one count, two routings", mergeEvidence([]table.Evidence{of(8, 2), of(8, 1.5)}), 8, 0},
		{"the least gain", least, 16, 16},
		{"joined again, with a larger gain", mergeEvidence([]table.Evidence{least, of(32, 3)}), 16, 16},
		{"joined again, with a smaller gain", mergeEvidence([]table.Evidence{least, of(32, 1.1)}), 32, 32},
	} {
		at, ok := c.got.At()
		if !ok || at != c.at || c.got.TimedAt != c.file || c.got.Median != float64(c.at) {
			t.Errorf("%s: times of %d tokens (%v), timed_at %d, median %v; want %d and %d", c.name, at, ok, c.got.TimedAt, c.got.Median, c.at, c.file)
		}
	}
	if _, ok := (table.Evidence{Tokens: []int{8, 16}}).At(); ok {
		t.Error("At returned a token count for a row that names no token count")
	}
}
