//go:build cuda

package drive

import (
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// TestSessionReadings: within the time readingAge a GPU is read once, also if ranks share the GPU.
func TestSessionReadings(t *testing.T) {
	asked, reasons := 0, 0
	device := &mock.Device{
		GetClockInfoFunc: func(nvml.ClockType) (uint32, nvml.Return) {
			asked++
			return uint32(1000 + asked), nvml.SUCCESS
		},
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) {
			reasons++
			return nvml.ClocksEventReasonSwPowerCap, nvml.SUCCESS
		},
	}
	now := time.Unix(1, 0)
	m := &monitor{devices: []nvml.Device{device, device}, now: func() time.Time { return now }}
	one, two := &rankSet{local: make([]localRank, 2)}, &rankSet{local: make([]localRank, 2)}
	for i := range 2 {
		one.local[i].gpu, two.local[i].gpu = &gpu{index: 0}, &gpu{index: i}
	}
	for i, c := range []struct {
		ranks   *rankSet
		passes  time.Duration
		mhz     []float64
		reasons int
	}{
		{two, 0, []float64{1001, 1002}, 2},
		{two, readingAge - 1, []float64{1001, 1002}, 2},
		{two, 1, []float64{1003, 1004}, 4},
		{one, 0, []float64{1005, 1006}, 5},
	} {
		now = now.Add(c.passes)
		mhz, notes := m.read(c.ranks)
		if !slices.Equal(mhz, c.mhz) || reasons != c.reasons || notes[0] != "GPU 0 throttled: power cap" {
			t.Errorf("reading %d: %v MHz, want %v; %d reasons asked for, want %d; %q", i, mhz, c.mhz, reasons, c.reasons, notes)
		}
	}
}
