package ref

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestFewValuesMayDiffer(t *testing.T) {
	w := tiny(func(p *ep.Problem) { p.Op = ep.Activation })
	o := New(w, 1)
	rows, hidden := o.Dispatch(0).End, w.Problem.Hidden
	out := make([]byte, 2*rows*hidden)
	for row := range rows {
		in := make([]uint16, 2*hidden)
		w.Gates(0, row, in)
		copy(out[2*row*hidden:], Quantize(ep.BF16, Narrow(Activation{}.Row(in)), 1).Payload)
	}
	judged := func() string {
		return o.CheckActivation(0, Activated{MaxRows: rows, Payload: Flat(out, 2*hidden)}, Activation{}, 0).Detail
	}
	most := mostOff(rows * hidden)
	if most*1000 <= rows*hidden {
		t.Fatalf("only %d of %d values may differ, want more than 1 in 1,000", most, rows*hidden)
	}
	for i := range most {
		out[2*i*(hidden+1)%len(out)] ^= 1
	}
	if got := judged(); got != "" {
		t.Errorf("%d values a code off: %s", most, got)
	}
	out[2] ^= 1
	if got := judged(); !strings.Contains(got, "differ by a code") {
		t.Errorf("%d values a code off: %q", most+1, got)
	}
	if at := mostOff(1_000_000); at > 1100 {
		t.Errorf("of a million values %d may differ", at)
	}
}
