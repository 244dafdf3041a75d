package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/plan"
)

// BenchmarkAgainstCopy prints what dispatch and combine deliver beside plain
// copies of as many bytes on the same cores: hidden 7168, 1024 tokens, 4
// ranks, top-8 of 256, BF16. A delivered byte counts once.
func BenchmarkAgainstCopy(b *testing.B) {
	plain := copyRate(b)
	for _, op := range []plan.Op{plan.Dispatch, plan.Combine} {
		b.Run(string(op), func(b *testing.B) {
			rate := kernelRate(b, op)
			b.ReportMetric(rate/1e9, "GB/s")
			b.ReportMetric(rate/plain, "of_copy")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func large(op plan.Op) plan.Problem {
	return plan.Problem{Op: op, Mode: plan.Eager, Ranks: 4, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 1024, MaxTokens: 1024, Dispatch: plan.BF16, Combine: plan.BF16}
}

const delivered = 4 * 1024 * 8 * 7168 * 2

// kernelRate is bytes delivered a second by the default config, the median
// round.
func kernelRate(b *testing.B, op plan.Op) float64 {
	p := large(op)
	backend, _ := Open()
	s, err := backend.Open(b.Context(), draw(b, p, "uniform"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	k := kernels.Of(backend.Kernels(), op)[0]
	c := k.DefaultConfig(backend.Machine(), p)
	if v, err := s.Verify(b.Context(), c); err != nil || !v.OK() {
		b.Fatal(v, err)
	}
	rounds, err := s.Run(b.Context(), c, kernels.RunSpec{Rounds: max(b.N, 11), Fold: 1})
	if err != nil {
		b.Fatal(err)
	}
	var times []float64
	for _, r := range rounds.Seconds {
		times = append(times, slices.Max(r))
	}
	slices.Sort(times)
	return delivered / times[len(times)/2]
}

// copyRate is bytes a second of copy, shared among the cores in pieces as
// large as they can be, the median of rounds.
func copyRate(b *testing.B) float64 {
	src, dst := make([]byte, delivered), make([]byte, delivered)
	for i := 0; i < len(src); i += 4096 {
		src[i], dst[i] = 1, 1
	}
	n := runtime.GOMAXPROCS(0)
	var times []float64
	for range 11 {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			lo, hi := i*delivered/n, (i+1)*delivered/n
			wg.Go(func() { copy(dst[lo:hi], src[lo:hi]) })
		}
		wg.Wait()
		times = append(times, time.Since(start).Seconds())
	}
	slices.Sort(times)
	rate := delivered / times[len(times)/2]
	fmt.Printf("copy: %.1f GB/s on %d cores\n", rate/1e9, n)
	return rate
}
