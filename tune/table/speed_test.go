package table

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/processor"
)

func bigTable(n int) *Table {
	tab := testTable()
	rng := rand.New(rand.NewPCG(3, 4))
	classes := ep.Classes()
	at := make([]int, len(classes))
	for i := range n {
		c := i % len(classes)
		hi := at[c] + rng.IntN(3)
		tab.Rows = append(tab.Rows, testRow(classes[c], at[c], hi, 32+i))
		at[c] = hi + 1
	}
	return tab
}

// TestResolveTakesTimeLinearInRows: for 16 times the rows, quadratic work would take 256 times as long.
func TestResolveTakesTimeLinearInRows(t *testing.T) {
	if testing.Short() {
		t.Skip("timed; left out with -short")
	}
	const bound = 64
	p := testKey(ep.Even).Problem(4096)
	resolve := func(rows int) func() {
		tab := bigTable(rows)
		return func() { tab.Resolve(testHost, p) }
	}
	ratio := processor.Ratio(t, 25, bound, resolve(10_000), resolve(625))
	t.Logf("10,000 rows take %.1f times as long as 625", ratio)
	if ratio > bound {
		t.Errorf("10,000 rows take %.1f times as long as 625, at most %d are allowed", ratio, bound)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	r := bigTable(1000).Resolve(testHost, testKey(ep.Even).Problem(4096))
	if n := testing.AllocsPerRun(1000, func() { sink = r.Lookup(37, ep.Skewed) }); n != 0 {
		t.Errorf("%g allocations per look-up", n)
	}
}

var sink *Answer

func BenchmarkLookup(b *testing.B) {
	r := bigTable(10_000).Resolve(testHost, testKey(ep.Even).Problem(4096))
	classes := ep.Classes()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		sink = r.Lookup(n&4095, classes[n%len(classes)])
		n += 37
	}
}

func BenchmarkResolve10000Rows(b *testing.B) {
	tab := bigTable(10_000)
	p := testKey(ep.Even).Problem(4096)
	for b.Loop() {
		tab.Resolve(testHost, p)
	}
}

func BenchmarkLoad10000Rows(b *testing.B) {
	data := encodeTable(b, bigTable(10_000))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
