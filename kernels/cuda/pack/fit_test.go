package pack

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestFit shows that the found token count fits, that the next one does not, and that more calls in
// flight leave fewer tokens.
func TestFit(t *testing.T) {
	tab := &table.Table{Header: table.Header{Machine: machine, ABI: "abi"}, ID: "table"}
	f := Fitter{Request: Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, Tables: table.Overlay(table.Source{Name: "t", Table: tab}), ABI: "abi"}}
	const budget = 64 << 20
	last := ep.MaxTokens
	for _, inFlight := range []int{1, 2, 8} {
		n, heap, err := f.Tokens(budget, inFlight)
		if err != nil || n < 1 || heap > budget || n > last {
			t.Fatalf("%d in flight: %d tokens of %d bytes, %v", inFlight, n, heap, err)
		}
		last = n
		r := f.Request
		r.Problem.MaxTokens = n
		p, err := Build(r, compile)
		if err != nil || p.HeapBytes(inFlight) != heap {
			t.Errorf("%d tokens: a pack with device binaries needs other memory, %v", n, err)
		}
		next, err := f.Pack(fitCounts[slices.Index(fitCounts, n)+1])
		if err != nil || next.HeapBytes(inFlight) <= budget {
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
		t.Errorf("a shape that cannot be: %v", err)
	}
	if first := fitCounts[:12]; !slices.Equal(first, []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}) || fitCounts[len(fitCounts)-1] != ep.MaxTokens {
		t.Errorf("%v to %d", first, fitCounts[len(fitCounts)-1])
	}
}
