package ref

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/epbench/epbench/kernels"
)

// finding is what was seen at one place of an output.
type finding struct {
	place  int    // order of places, for the first difference
	wrong  string // "" where all is right
	maxErr float64
}

// judge collects findings into a Comparison. They may come in any order.
type judge struct {
	kernels.Comparison
	rank  int
	place int // of what is looked at now
	first int // place of Detail
}

// wrong counts something wrong at the present place.
func (j *judge) wrong(format string, args ...any) {
	j.finding(finding{place: j.place, wrong: fmt.Sprintf(format, args...)})
}

// finding adds one. Detail describes the wrong one with the lowest place; of two
// at one place, the first that was added.
func (j *judge) finding(f finding) {
	j.MaxErr = max(j.MaxErr, f.maxErr)
	if f.wrong == "" {
		return
	}
	if j.Wrong == 0 || f.place < j.first {
		j.first, j.Detail = f.place, f.wrong
	}
	j.Wrong++
}

// result is the Comparison; its detail names the rank.
func (j *judge) result() kernels.Comparison {
	if j.Detail != "" {
		j.Detail = fmt.Sprintf("rank %d %s", j.rank, j.Detail)
	}
	return j.Comparison
}

// spread calls f for every i below n on all processors.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}
