package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// delivered counts the bytes that one call of `large` delivers: 4 ranks x 1024 tokens x 8 experts x 7168 values x
// 2 bytes.
const delivered = 4 * 1024 * 8 * 7168 * 2

func large(op ep.Op) ep.Problem {
	return ep.Problem{Op: op, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 1024, MaxTokens: 1024, Dispatch: ep.BF16, Combine: ep.BF16}
}

// BenchmarkAgainstCopy prints the bytes per second of a copy, a dispatch and a combine. It measures them in turns.
func BenchmarkAgainstCopy(b *testing.B) {
	source, target := make([]byte, delivered), make([]byte, delivered)
	fill(source) // unwritten pages would share one page of zeros
	dispatch, combine := prepared(b, ep.Dispatch), prepared(b, ep.Combine)
	plain := func() float64 { return copyOnce(source, target) }
	plain()
	var rates, ofCopy [3][]float64
	for range max(b.N, 11) {
		base := plain()
		for i, run := range []func() float64{func() float64 { return base }, dispatch, combine} {
			seconds := run()
			rates[i] = append(rates[i], delivered/seconds/1e9)
			ofCopy[i] = append(ofCopy[i], base/seconds)
		}
	}
	fmt.Printf("copy %.1f GB/s, dispatch %.1f GB/s = %.2f of copy, combine %.1f GB/s = %.2f of copy (hidden 7168, 1024 tokens, 4 ranks, top-8 of 256, BF16, %d cores)\n",
		middle(rates[0]), middle(rates[1]), middle(ofCopy[1]), middle(rates[2]), middle(ofCopy[2]), runtime.GOMAXPROCS(0))
	b.ReportMetric(middle(ofCopy[1]), "dispatch/copy")
	b.ReportMetric(middle(ofCopy[2]), "combine/copy")
	b.ReportMetric(0, "ns/op")
}

func middle(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func prepared(b *testing.B, op ep.Op) func() float64 {
	p := large(op)
	backend, err := Open()
	if err != nil {
		b.Fatal(err)
	}
	s, err := backend.Open(b.Context(), draw(b, p, "uniform"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	c := kernels.Of(backend.Kernels(), op)[0].DefaultConfig(backend.Machine(), p)
	if v, err := s.Verify(b.Context(), c); err != nil || !v.OK() {
		b.Fatal(v, err)
	}
	return func() float64 {
		r, err := s.Run(b.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1})
		if err != nil {
			b.Fatal(err)
		}
		return slices.Max(r.Seconds[0])
	}
}

func copyOnce(source, target []byte) float64 {
	n := runtime.GOMAXPROCS(0)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		lo, hi := i*len(source)/n, (i+1)*len(source)/n
		wg.Go(func() { copy(target[lo:hi], source[lo:hi]) })
	}
	wg.Wait()
	return time.Since(start).Seconds()
}
