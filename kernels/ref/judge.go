package ref

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/epbench/epbench/kernels"
)

type finding struct {
	place  int // index in the output
	wrong  string
	maxErr float64 // relative
}

type judge struct {
	kernels.Comparison
	rank  int
	place int
	first int // place of Detail
}

func (j *judge) wrong(format string, args ...any) {
	j.finding(finding{place: j.place, wrong: fmt.Sprintf(format, args...)})
}

// finding adds f. Detail describes the finding with the lowest place.
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

func (j *judge) result() kernels.Comparison {
	if j.Detail != "" {
		j.Detail = fmt.Sprintf("rank %d %s", j.rank, j.Detail)
	}
	return j.Comparison
}

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
