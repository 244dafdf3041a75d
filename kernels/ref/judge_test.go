package ref

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

func checkOn(processors int, o *Oracle, out Output) kernels.Comparison {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	return o.CheckDispatch(0, out, Compare{})
}

func realRows(d Delivery) []int {
	var out []int
	for i, g := range d.Groups {
		for n := range g.Rows() {
			out = append(out, int(d.RowOffsets[i])+n)
		}
	}
	return out
}

func TestSameForAnySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := tiny(func(p *ep.Problem) {
			p.Dispatch = rapid.SampledFrom(ep.DTypes()).Draw(t, "dtype")
			p.SharedExpert = rapid.Bool().Draw(t, "shared")
		})
		o := New(w, 1)
		out := faithful(o, 0)
		rows := realRows(o.Dispatch(0))
		bad := rapid.SliceOfNDistinct(rapid.SampledFrom(rows), 0, len(rows), rapid.ID[int]).Draw(t, "wrong rows")
		for _, row := range bad {
			out.Payload(row)[0] ^= 0x41
		}
		one, many := checkOn(1, o, out), checkOn(4, o, out)
		if one != many || one.Wrong != len(bad) || one.Rows != len(rows) {
			t.Fatalf("%d wrong of %d: one processor says %+v, four say %+v", len(bad), len(rows), one, many)
		}
		if len(bad) > 0 && !strings.Contains(one.Detail, fmt.Sprintf("row %d (", slices.Min(bad))) {
			t.Fatalf("the lowest wrong row is %d: %s", slices.Min(bad), one.Detail)
		}
	})
}
