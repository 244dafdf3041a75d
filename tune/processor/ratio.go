package processor

import (
	"testing"
	"time"
)

// Ratio returns the processor time of `work` divided by that of `reference`. It runs both up to `turns` times and
// divides their shortest times. It stops after three turns or more if the ratio is at most `bound`.
func Ratio(t testing.TB, turns int, bound float64, work, reference func()) float64 {
	t.Helper()
	const forever = time.Duration(1<<63 - 1)
	least := [2]time.Duration{forever, forever}
	for turn := 0; ; turn++ {
		for i, f := range []func(){work, reference} {
			start := Time(t)
			f()
			least[i] = max(min(least[i], Time(t)-start), 1)
		}
		if r := float64(least[0]) / float64(least[1]); turn+1 >= turns || turn >= 2 && r <= bound {
			return r
		}
	}
}
