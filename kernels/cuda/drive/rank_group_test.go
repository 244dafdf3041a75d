//go:build cuda

package drive

import (
	"errors"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestDrillWorst: a crash outranks hangs, and a hang needs no fault record.
func TestDrillWorst(t *testing.T) {
	sound, crash := answer{}, answer{Status: ep.Crash, Reason: "illegal address"}
	silent := answer{Status: ep.Hang, Reason: "no progress"}
	waits := silent
	waits.Faults = []wireFault{{Rank: 1, Phase: 2, Expert: 3}}
	for _, c := range []struct {
		all    []answer
		status ep.Status
		reason string
	}{
		{[]answer{sound, sound}, "", ""},
		{[]answer{waits, crash}, ep.Crash, "rank 1: illegal address"},
		{[]answer{sound, waits}, ep.Hang, "no progress within"},
		{[]answer{sound, silent}, ep.Hang, "rank 1: no progress"},
	} {
		err := rootFailure(c.all, &Backend{})
		var f *kernels.Failure
		if (err == nil) != (c.status == "") || err != nil && (!errors.As(err, &f) || f.Status != c.status || !strings.HasPrefix(f.Reason, c.reason)) {
			t.Errorf("%+v: %v, want %s %q", c.all, err, c.status, c.reason)
		}
	}
}
