package ref

import (
	"testing"

	"github.com/epbench/epbench/kernels"
)

func TestVerifiedBits(t *testing.T) {
	p, asked := newVerifiedBits(), 0
	good, bad := kernels.Comparison{Rows: 2, MaxErr: 0.25}, kernels.Comparison{Rows: 2, Wrong: 1}
	loose, strict := Compare{Partial: BF16Partial}, Compare{}
	check := func(c Compare, says kernels.Comparison, want int, rows ...byte) {
		t.Helper()
		if got := p.check(c, Pieces(rows, 2), func() kernels.Comparison { asked++; return says }); got != says || asked != want {
			t.Errorf("got %+v after %d comparisons, want %+v after %d", got, asked, says, want)
		}
	}
	check(loose, good, 1, 1, 2, 3)
	check(loose, good, 1, 1, 2, 3)
	check(loose, good, 2, 1, 2, 4)
	check(strict, good, 3, 1, 2, 3)
	check(loose, bad, 4, 9, 2, 3)
	check(loose, bad, 5, 9, 2, 3)
	check(loose, good, 6)
}
