package pack

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestFit: the returned count fits, and the next does not. With more calls in flight, fewer tokens fit.
func TestFit(t *testing.T) {
	tab := &table.Table{Header: table.Header{Machine: machine, ABI: "abi"}, ID: "table"}
	f := Fitter{Request: Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, Tables: table.Overlay(table.Source{Name: "t", Table: tab}), ABI: "abi"}}
	const budget = 64 << 20
	last := ep.MaxTokens
	for _, inFlight := range []int{1, 2, 8} {
		n, heap, err := f.Tokens(budget, inFlight)
		if err != nil || n < 1 || heap > budget || n > last {
			t.Fatalf("%d calls in flight: %d tokens take %d bytes, error %v", inFlight, n, heap, err)
		}
		last = n
		r := f.Request
		r.Problem.MaxTokens = n
		p, err := Build(r, compile)
		if err != nil || p.HeapBytes(inFlight) != heap {
			t.Errorf("%d tokens: the pack needs another number of bytes than the Fitter returns (%v)", n, err)
		}
		r.Problem.MaxTokens = fitCounts[slices.Index(fitCounts, n)+1]
		if next, err := Build(r, compile); err != nil || next.HeapBytes(inFlight) <= budget {
			t.Errorf("%d in flight: more than %d tokens fit, %v", inFlight, n, err)
		}
		if most, err := f.InFlight(budget, n); err != nil || most < inFlight || p.HeapBytes(most) > budget || p.HeapBytes(most+1) <= budget {
			t.Errorf("%d calls of %d tokens fit, %v", most, n, err)
		}
	}
	if n, _, err := f.Tokens(1, 1); n != 0 || err != nil {
		t.Errorf("one byte holds %d tokens, %v", n, err)
	}
	f = Fitter{Request: f.Request}
	f.Request.Problem.Experts = 7
	if _, _, err := f.Tokens(budget, 1); err == nil || !strings.Contains(err.Error(), "topk: 8 is outside 1 to 7") {
		t.Errorf("7 experts with topk 8: %v", err)
	}
	if first := fitCounts[:12]; !slices.Equal(first, []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}) || fitCounts[len(fitCounts)-1] != ep.MaxTokens {
		t.Errorf("the counts begin with %v and end with %d, want the end %d", first, fitCounts[len(fitCounts)-1], ep.MaxTokens)
	}
}

func TestFitSizesAreThePacks(t *testing.T) {
	for _, c := range []struct {
		layout  ep.Layout
		nodes   int
		machine ep.Machine
		rows    []table.Row
	}{
		{ep.Layouts()[0], 1, machine, nil}, {ep.Layouts()[1], 1, machine, nil}, {ep.LayoutMasked, 1, machine, nil},
		{ep.LayoutRank, 1, machine, nil}, {ep.LayoutRankPacked, 1, machine, nil}, {ep.Layouts()[0], 2, twoNodes, hostRows(2)},
	} {
		tab := &table.Table{Header: table.Header{Machine: c.machine, ABI: "abi"}, ID: "table", Rows: c.rows}
		r := Request{Problem: shape, DTypes: []ep.DType{ep.FP8, ep.BF16}, Reduced: true, Machine: c.machine, Tables: table.Overlay(table.Source{Name: "t", Table: tab}), ABI: "abi"}
		r.Problem.Layout, r.Problem.Nodes = c.layout, c.nodes
		if c.nodes > 1 {
			r.Problem.Ranks = 16
		}
		f := Fitter{Request: r}
		for _, tokens := range []int{1, 24, 512} {
			r.Problem.MaxTokens = tokens
			p, err := Build(r, compile)
			if err != nil {
				t.Fatalf("layout %s, %d nodes: %v", c.layout, c.nodes, err)
			}
			s := f.sizing(tokens)
			for _, inFlight := range []int{0, 1, 3} {
				if got, want := s.heap(inFlight), p.HeapBytes(inFlight); got != want || s.err != nil {
					t.Errorf("layout %s, %d nodes, %d tokens, %d in flight: %d bytes, the pack says %d, %v", c.layout, c.nodes, tokens, inFlight, got, want, s.err)
				}
			}
		}
	}
}

// TestFitAsksFewCounts: few token counts are tried, because each costs a look-up in all tables.
func TestFitAsksFewCounts(t *testing.T) {
	f := Fitter{Request: Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, ABI: "abi"}}
	for _, inFlight := range []int{1, 2, 4} {
		if _, _, err := f.Tokens(1<<30, inFlight); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.known) > 16 {
		t.Errorf("%d token counts were tried", len(f.known))
	}
}

// TestEstimate: a call of n tokens takes 1,000 + 100 n bytes.
func TestEstimate(t *testing.T) {
	f := Fitter{known: map[int]sizing{}}
	for _, n := range fitCounts[:12] {
		f.known[n] = sizing{around: 1000, slot: int64(100 * n)}
	}
	for _, c := range []struct {
		bytes int64
		want  int
	}{{2000, 10}, {2050, 10}, {1250, 2}, {1790, 7}, {1000, 2}, {9000, 14}} {
		if got := fitCounts[f.estimate(c.bytes, 1, 0, 11)]; got != c.want {
			t.Errorf("%d bytes: %d tokens between 1 and 16, want %d", c.bytes, got, c.want)
		}
	}
	f.known[16] = sizing{err: errors.New("too many tokens")}
	if got := f.estimate(2000, 1, 0, 11); got != 5 {
		t.Errorf("index %d between 0 and 11, want the middle: the memory of the upper count is unknown", got)
	}
}
