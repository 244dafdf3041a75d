package reports_test

import (
	"strings"
	"testing"
	"time"
)

func TestResume(t *testing.T) {
	l := small().load("dir/run")
	l.Run.Command = []string{"epbench", "sweep"}
	if got := l.Resume(); got != "" {
		t.Errorf("a finished sweep: %q", got)
	}
	l.Run.Finished = time.Time{}
	if got := l.Resume(); !strings.HasSuffix(got, "epbench sweep --resume dir/run") {
		t.Errorf("an unfinished sweep: %q", got)
	}
	l.Run.Command[1] = "bench"
	if got := l.Resume(); got != "" {
		t.Errorf("bench: %q", got)
	}
}
