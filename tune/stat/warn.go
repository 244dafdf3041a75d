package stat

import (
	"fmt"
	"math"
	"slices"
)

// Outliers returns the number of readings more than three interquartile ranges above the third quartile (Tukey 1977).
func Outliers(xs []float64) int {
	q1, q3 := Quantile(xs, 0.25), Quantile(xs, 0.75)
	n := 0
	for _, x := range xs {
		if x > q3+3*(q3-q1) {
			n++
		}
	}
	return n
}

// Drift returns the relative change of the median from the first to the last third of a series, or 0 for fewer than
// nine readings.
func Drift(xs []float64) float64 {
	third := len(xs) / 3
	if third < 3 {
		return 0
	}
	return Median(xs[len(xs)-third:])/Median(xs[:third]) - 1
}

const (
	outlierShare = 0.1  // of the readings
	driftLimit   = 0.05 // of the median
	clockDrop    = 0.05 // of the highest reading
)

// Warnings returns warnings about outliers and drift of xs: seconds in time order.
func Warnings(xs []float64) []string {
	var out []string
	if n := Outliers(xs); len(xs) >= 9 && float64(n) > outlierShare*float64(len(xs)) {
		out = append(out, fmt.Sprintf("outliers: %d of %d rounds lie far above the rest; something else uses this machine", n, len(xs)))
	}
	if d := Drift(xs); math.Abs(d) > driftLimit {
		out = append(out, fmt.Sprintf("drift: the last third of the rounds is %+.1f %% against the first; let the machine settle", 100*d))
	}
	return out
}

// ClockWarning returns a warning if a clock fell, or "". The readings are in MHz.
func ClockWarning(mhz []float64) string {
	if len(mhz) == 0 {
		return ""
	}
	top, low := slices.Max(mhz), slices.Min(mhz)
	if top <= 0 || low >= top*(1-clockDrop) {
		return ""
	}
	return fmt.Sprintf("throttle: the SM clock fell from %.0f to %.0f MHz; cool the machine or lower its power limit", top, low)
}
