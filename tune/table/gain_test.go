package table

import (
	"math"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestGainInterval: if a gain comes from one session on a GPU, its interval is widened by the
// difference between sessions. The interval of several sessions already includes that difference, if
// the sessions lay at different places in memory.
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

// TestGainIntervalWith: with another build of the row's kernels the interval is wider, and more so for
// a call of few microseconds.
func TestGainIntervalWith(t *testing.T) {
	gpu := Header{ABI: "direct=1f"}
	gpu.Machine.GPUs = 2
	row := func(seconds float64) Row {
		return Row{Config: ep.Config{Kernel: "direct"}, Evidence: Evidence{Median: seconds, Gain: 4, GainLow: 3.9, GainHigh: 4.1, Sessions: 3, Protocol: 1}}
	}
	for name, c := range map[string]struct {
		build     ep.ABI
		row       Row
		low, high float64
	}{
		"the row's build": {"direct=1f", row(4e-6), 3.9, 4.1},
		"unknown":         {"", row(4e-6), 3.9, 4.1},
		"a short call":    {"direct=2f", row(4e-6), 3.2631, 4.9029},
		"a long call":     {"direct=2f", row(400e-6), 3.7852, 4.2258},
		"not measured":    {"direct=2f", Row{Config: ep.Config{Kernel: "direct"}, Evidence: Evidence{Median: 4e-6, Gain: 1, GainLow: 1, GainHigh: 1}}, 1, 1},
	} {
		low, high := gpu.GainIntervalWith(c.build, c.row)
		if math.Abs(low-c.low) > 1e-3 || math.Abs(high-c.high) > 1e-3 {
			t.Errorf("%s: [%.4f, %.4f], want [%.4f, %.4f]", name, low, high, c.low, c.high)
		}
	}
}
