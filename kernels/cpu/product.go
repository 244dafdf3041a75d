package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// product is the work beside a rank's calls: float32 matrix products, or a copy.
type product struct {
	of      ep.Product
	groups  int       // experts whose matrices are in memory
	x       []float32 // [M, K]
	w       []float32 // [groups, N, K]
	out     []float32 // [M, N]
	from    []byte    // for a copy
	to      []byte
	next    int           // index of the next piece
	elapsed time.Duration // time of the pieces that inPhases ran between sending and receiving
}

// A piece is pieceColumns columns of one row, or a copy of pieceBytes bytes.
const (
	pieceColumns = 16
	pieceBytes   = 64 << 10
)

// productBytes is the largest size of `w`, and of a copy. In larger products, several experts have the same matrix.
const productBytes = 32 << 20

func newProduct(of ep.Product) *product {
	p := &product{of: of}
	if of.Kind == ep.Copy {
		p.from, p.to = make([]byte, productBytes), make([]byte, productBytes)
		return p
	}
	p.groups = max(1, min(of.Groups, productBytes/(4*of.N*of.K)))
	p.x, p.out = make([]float32, of.M*of.K), make([]float32, of.M*of.N)
	p.w = make([]float32, p.groups*of.N*of.K)
	for i := range p.x {
		p.x[i] = factor(i)
	}
	for i := range p.w {
		p.w[i] = factor(i + 3)
	}
	return p
}

// factor returns a small whole number, so that sums are exact.
func factor(i int) float32 { return float32(i%7 - 3) }

func (p *product) pieces() int {
	if p.of.Kind == ep.Copy {
		return productBytes / pieceBytes
	}
	return p.groups * p.of.M * ((p.of.N + pieceColumns - 1) / pieceColumns)
}

// work computes the next n pieces. After each piece it yields the processor, so that polling workers can run.
func (p *product) work(n int) {
	for range n {
		p.piece(p.next)
		p.next = (p.next + 1) % p.pieces()
		runtime.Gosched()
	}
}

func (p *product) piece(i int) {
	if p.of.Kind == ep.Copy {
		copy(p.to[i*pieceBytes:][:pieceBytes], p.from[i*pieceBytes:])
		return
	}
	q := p.of
	across := (q.N + pieceColumns - 1) / pieceColumns
	first, row, group := i%across*pieceColumns, i/across%q.M, i/across/q.M
	x := p.x[row*q.K:][:q.K]
	for n := first; n < min(first+pieceColumns, q.N); n++ {
		w := p.w[(group*q.N+n)*q.K:][:q.K]
		var sum float32
		for k, v := range x {
			sum += v * w[k]
		}
		p.out[row*q.N+n] = sum
	}
}

func (p *product) amount(n int) string {
	return fmt.Sprintf("%d of %d pieces of %s on the matrices of %d experts", n, p.pieces(), p.of, max(p.groups, 1))
}

// startProducts runs n pieces for every rank after `start` closes. The returned function waits until all
// pieces are done, and returns the ranks' end times.
func startProducts(products []*product, start <-chan struct{}, n int, done []atomic.Int64) func() []time.Time {
	ends := make([]time.Time, len(products))
	var all sync.WaitGroup
	for r, p := range products {
		all.Go(func() {
			<-start
			for range n {
				p.work(1)
				done[r].Add(1)
			}
			ends[r] = time.Now()
		})
	}
	return func() []time.Time { all.Wait(); return ends }
}
