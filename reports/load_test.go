package reports_test

import (
	"strings"
	"testing"
	"time"
)

// TestResume: the run of an unfinished sweep gives the command that continues it. A finished
// sweep gives none, and neither does bench.
func TestResume(t *testing.T) {
	l := small().load("dir/run")
	l.Run.Command = []string{"epbench", "sweep"}
	if got := l.Resume(); got != "" {
		t.Errorf("finished: %q", got)
	}
	l.Run.Finished = time.Time{}
	if got := l.Resume(); !strings.HasSuffix(got, "epbench sweep --resume dir/run") {
		t.Errorf("unfinished: %q", got)
	}
	l.Run.Command[1] = "bench"
	if got := l.Resume(); got != "" {
		t.Errorf("bench: %q", got)
	}
}
