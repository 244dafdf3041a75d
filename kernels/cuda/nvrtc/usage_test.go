package nvrtc

import (
	"slices"
	"testing"
)

// TestParseUsage reads a log of ptxas 13.0: two entries, one of which calls a
// function that is compiled by itself.
func TestParseUsage(t *testing.T) {
	const log = `ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function 'ep_empty' for 'sm_90a'
ptxas info    : Function properties for ep_empty
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers
ptxas info    : Compile time = 2.439 ms
ptxas info    : Compiling entry function 'ep_align' for 'sm_90a'
ptxas info    : Function properties for ep_align
ptxas         .     528 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 54 registers, used 0 barriers, 528 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 13.377 ms
ptxas info    : Function properties for _ZN8ep_faultERK6EpArgs
ptxas         .     0 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads`
	got, err := ParseUsage(log)
	want := []Usage{
		{Entry: "ep_empty", Registers: 8},
		{Entry: "ep_align", Registers: 54, SpillStore: 16, SpillLoad: 24, Stack: 528, Shared: 1024},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if !got[1].Spills() || got[0].Spills() {
		t.Error("spills are not told from none")
	}
	if _, err := ParseUsage("nothing"); err == nil {
		t.Error("a log without entries was taken")
	}
}
