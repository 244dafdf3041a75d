package dtype

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestMessageBytes(t *testing.T) {
	for _, c := range []struct {
		hidden, topK            int
		bf16, fp8, mxfp4, nvfp4 int
	}{
		{7168, 8, 14368, 7424, 3840, 4064},
		{6144, 4, 12320, 6368, 3296, 3488},
		{4096, 6, 8224, 4256, 2208, 2336},
		{2048, 8, 4128, 2144, 1120, 1184},
	} {
		want := map[ep.DType]int{ep.BF16: c.bf16, ep.FP8: c.fp8, ep.MXFP4: c.mxfp4, ep.NVFP4: c.nvfp4}
		for f, bytes := range want {
			if got := Of(f, c.hidden).Message(c.topK).Bytes; got != bytes {
				t.Errorf("%s hidden %d top-%d: message of %d bytes, want %d", f, c.hidden, c.topK, got, bytes)
			}
		}
	}
}

func TestMessagePartsAreAligned(t *testing.T) {
	for _, f := range ep.DTypes() {
		for _, topK := range []int{1, 2, 8, 9, 32} {
			l := Of(f, 2048)
			h := l.Message(topK)
			for _, off := range []int{l.ScaleOffset(), h.SrcInfo, h.IDs, h.Bytes} {
				if off%Align != 0 {
					t.Errorf("%s top-%d: offset %d is not a multiple of %d", f, topK, off, Align)
				}
			}
		}
	}
}

func TestMaxRowsHoldsPadding(t *testing.T) {
	p := ep.Problem{Ranks: 2, Experts: 64, TopK: 8, MaxTokens: 16, Dispatch: ep.FP8}
	// The padding is largest if 31 groups have 5 rows (8 with padding) and one group has 101 rows (104).
	worst := 31*8 + 104
	if got := MaxRows(p); got < worst {
		t.Errorf("MaxRows = %d, but the rows and their padding can need %d", got, worst)
	}
	p.SharedExpert = true
	if got := MaxRows(p) - 2*16*8; got < 16+33*3 {
		t.Errorf("shared expert and its padding get %d rows", got)
	}
}

func TestNVFP4ScalesHaveWholeBlocks(t *testing.T) {
	l := Of(ep.NVFP4, 2048)
	if got := OutputScaleBytes(l, 4, 1000); got%(ScaleBlockRows*4) != 0 || got < (1000+3*127)*l.Scales {
		t.Errorf("%d bytes", got)
	}
}
