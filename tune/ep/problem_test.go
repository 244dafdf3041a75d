package ep

import "testing"

// TestHiddenRefusals: a refusal names a way out that is one.
func TestHiddenRefusals(t *testing.T) {
	for _, c := range []struct {
		format DType
		hidden int
		want   string
	}{
		{BF16, 100, "hidden: 100 is not a multiple of 8, which bf16 needs; pad it to 104"},
		{FP8, 100, "hidden: 100 is not a multiple of 128, which fp8 needs; pad it to 128"},
		{FP8, 2880, "hidden: 2880 is not a multiple of 128, which fp8 needs; pad it to 2944 or use bf16"},
		{NVFP4, 24, "hidden: 24 is not a multiple of 16, which nvfp4 needs; pad it to 32 or use bf16"},
		{MXFP4, 64, ""},
	} {
		got := ""
		if err := c.format.checkHidden(c.hidden); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %d: %q, want %q", c.format, c.hidden, got, c.want)
		}
	}
}
