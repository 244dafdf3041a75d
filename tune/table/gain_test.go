package table

import (
	"math"
	"testing"
)

// TestGainInterval: the interval of a single session on a GPU is widened.
func TestGainInterval(t *testing.T) {
	gpu, host := Header{}, Header{}
	gpu.Machine.GPUs = 2
	row := func(sessions, protocol int) Row {
		return Row{Evidence: Evidence{Gain: 1.1, GainLow: 1.09, GainHigh: 1.12, Sessions: sessions, Protocol: protocol}}
	}
	for name, c := range map[string]struct {
		head      Header
		row       Row
		low, high float64
	}{
		"one session":      {gpu, row(0, 1), 1.0566, 1.1485},
		"three sessions":   {gpu, row(3, 1), 1.09, 1.12},
		"at one place":     {gpu, row(3, 0), 1.0566, 1.1485},
		"a host":           {host, row(0, 0), 1.09, 1.12},
		"not measured":     {gpu, Row{Evidence: Evidence{Gain: 1, GainLow: 1, GainHigh: 1}}, 1, 1},
		"without evidence": {gpu, Row{}, 0, 0},
	} {
		low, high := c.head.GainInterval(c.row)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%s: [%.4f, %.4f], want [%.4f, %.4f]", name, low, high, c.low, c.high)
		}
	}
}

// TestReasonsInTables: tables on disk have these reasons. With another wording, IsDefault would take their compromises
// for the default config.
func TestReasonsInTables(t *testing.T) {
	for reason, want := range map[string]bool{"": true, "kept": true, "compromise of 2 routings": false, "compromise of 12 routings": false} {
		row := Row{Evidence: Evidence{Gain: 1, GainLow: 1, GainHigh: 1, Reason: reason}}
		if got := (Header{MaxSMs: 8}).IsDefault(row); got != want {
			t.Errorf("reason %q: IsDefault is %v", reason, got)
		}
	}
	if got, want := Compromise(2), "compromise of 2 routings"; got != want {
		t.Errorf("reason of a compromise: %q, want %q", got, want)
	}
}
