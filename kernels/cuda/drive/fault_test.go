package drive

import (
	"strings"
	"testing"
	"time"
)

// TestNeverBegan: if ranks wait only in the start alignment, the candidate did not cause the hang.
func TestNeverBegan(t *testing.T) {
	start, wait := faultRecord{rank: 1, phase: 1, source: 4}, faultRecord{rank: 4, phase: 3}
	for _, c := range []struct {
		faults []faultRecord
		want   bool
	}{{nil, false}, {[]faultRecord{start, start}, true}, {[]faultRecord{start, wait}, false}, {[]faultRecord{wait}, false}} {
		if got := neverBegan(c.faults); got != c.want {
			t.Errorf("%v: %v", c.faults, got)
		}
	}
}

// TestHangReason: a hang's reason names what each rank waits for, ranks inside a kernel first.
func TestHangReason(t *testing.T) {
	got := hangReason([]faultRecord{
		{rank: 0, phase: 1, expert: -1, source: 3, want: 7, got: 6},
		{rank: 2, phase: 3, expert: 17, source: 3, block: 131, want: 0, got: ^uint64(0)},
	}, time.Second)
	want := "no progress within 1s: rank 2 waited in dispatch_wait for expert 17 from rank 3 (block 131 wanted 0, saw -1); " +
		"rank 0 waited in the start alignment for rank 3 (block 0 wanted 7, saw 6)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := (faultRecord{phase: 99, expert: -1, source: -1}).sentence(); !strings.Contains(s, "phase 99") {
		t.Errorf("an unknown phase became %q", s)
	}
}
