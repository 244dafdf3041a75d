package main

import (
	"math"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

// TestSwappedGate allows a loss of 3 %. A winner fails if its whole interval is above 3 %. The result is unsure if the
// interval contains 3 % or is missing.
func TestSwappedGate(t *testing.T) {
	loss := func(low, high float64) reports.Swapped {
		return reports.Swapped{Verdict: record.Same, Loss: record.Interval{Mid: (low + high) / 2, Low: low, High: high}}
	}
	slower := loss(1, 1.01)
	slower.Verdict = record.Slower
	for _, c := range []struct {
		name           string
		of             reports.Swapped
		losers, unsure int
	}{
		{"the same winner", reports.Swapped{Verdict: record.Same, Loss: record.One}, 0, 0},
		{"below 3 %", loss(1.00, 1.02), 0, 0},
		{"above 3 %", loss(1.04, 1.06), 1, 0},
		{"3 % is inside the interval", loss(1.01, 1.05), 0, 1},
		{"slower than the default", slower, 1, 0},
		{"not measured in the other run", loss(math.NaN(), math.NaN()), 0, 1},
	} {
		all := []reports.Swapped{c.of}
		if l, u := losers(all, 0.03), unsureOf(all, 0.03); l != c.losers || u != c.unsure {
			t.Errorf("%s: %d losers, %d unsure; want %d, %d", c.name, l, u, c.losers, c.unsure)
		}
	}
}
