package record

import (
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestWall(t *testing.T) {
	w := Wall{Total: 10, Measuring: 5, Samples: 3, Checking: 2, Preparing: 1, Opening: 0.5, Starting: 0.25, Writing: 0.25}
	if got := w.Deciding(); math.Abs(got-1) > 1e-12 {
		t.Errorf("deciding %v", got)
	}
	if got := (Wall{Total: 1, Measuring: 2}).Deciding(); got != 0 {
		t.Errorf("deciding below 0: %v", got)
	}
	const want = "20s of wall time: measured kernels 50 % (samples themselves 30 %), checking answers 20 %, compiling and loading 10 %, " +
		"opening sessions 5 %, starting 2 %, deciding 10 %, writing files 2 %"
	if got := w.Plus(w).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	w.Run, w.Check = ep.RunTime{Graphs: 0.5, Rounds: 4, Clocks: 0.25}, ep.CheckTime{Filling: 0.25, Running: 0.5, Reading: 0.5, Comparing: 0.25}
	const split = "20s of wall time: measured kernels 50 % (samples themselves 30 %, warm-up and launches 10 %, graphs 5 %, asking for clocks 2 %, to the worker and back 2 %), " +
		"checking answers 20 % (filling buffers 2 %, running 5 %, reading 5 %, comparing 2 %, probes, to the worker and back 5 %), "
	if got := w.Plus(w).String(); !strings.HasPrefix(got, split) {
		t.Errorf("got  %s\nwant %s", got, split)
	}
	if got := (Wall{}).String(); got != "" {
		t.Errorf("a run without times: %q", got)
	}
}
