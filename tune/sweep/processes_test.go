package sweep

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// renewed is a scripted backend whose processes differ: Slower is what a config takes more in
// process n, 0 for the first.
type renewed struct {
	*scripted
	process int
}

func (b *renewed) Renew(context.Context) error { b.process++; return nil }

func newRenewed(slower func(process int, c ep.Config) float64) *renewed {
	b := &renewed{scripted: &scripted{Sigma: 0.002}}
	b.OnRun = func(c call, seconds []float64) error {
		for i := range seconds {
			seconds[i] *= slower(b.process, c.Config)
		}
		return nil
	}
	return b
}

func inProcesses(t *testing.T, n int, routings ...string) *Options {
	o := options(t, "dispatch", []int{8}, routings...)
	o.Processes = n
	return o
}

// shifts are what the winner of the landscape takes more in a process, 1 in the search's.
func shifts(by ...float64) func(int, ep.Config) float64 {
	return func(process int, c ep.Config) float64 {
		if c.Int("sms") != 32 {
			return 1
		}
		return by[process]
	}
}

// TestProcesses: times and gains are the median over the further processes, the interval
// covers them, and the search's own process has no part in it.
func TestProcesses(t *testing.T) {
	b := newRenewed(shifts(1, 1.06, 1.02, 1.1, 1.04, 1.08))
	out := mustSweep(t, b, inProcesses(t, 5, "uniform"), filepath.Join(t.TempDir(), "run"))
	if b.process != 5 {
		t.Errorf("%d processes after the first, want 5", b.process)
	}
	s := out.Run.Searches[0]
	gain := s.DefaultTime.Median / s.Times.Median // of the landscape: 1.575, and 6 % less in the middle
	if d := s.Decision; d.Processes != 5 || d.Rounds != 5*25 || d.Config.Int("sms") != 32 || math.Abs(d.Gain.Mid*1.06/1.575-1) > 0.01 || math.Abs(gain/d.Gain.Mid-1) > 0.01 {
		t.Errorf("%+v, times %.3f", d, gain)
	}
	if i := s.Decision.Gain; i.Low*1.1 > 1.575*1.01 || i.High*1.02 < 1.575*0.99 {
		t.Errorf("%+v does not cover what the processes take", i)
	}
	row := out.Table.Rows[0].Evidence
	if row.Processes != 5 || row.Median != s.Times.Median || row.Gain != s.Decision.Gain.Mid || row.GainLow != s.Decision.Gain.Low {
		t.Errorf("the row says %+v", row)
	}
}

// TestProcessesWithdraw: what is faster in the search's process alone is not worth leaving
// the default for, and what fails in another is no answer at all.
func TestProcessesWithdraw(t *testing.T) {
	lucky := newRenewed(shifts(1, 1.6, 1.5, 1.7))
	out := mustSweep(t, lucky, inProcesses(t, 3, "uniform"), filepath.Join(t.TempDir(), "run"))
	d := out.Run.Searches[0].Decision
	if !d.KeepsDefault() || d.Processes != 3 || !strings.Contains(d.Reason, "not for certain in 3 further ones") || !out.Table.Rows[0].Default {
		t.Errorf("%+v", d)
	}
	weak := newRenewed(shifts(1, 1, 1, 1))
	inner := weak.OnRun
	weak.OnRun = func(c call, seconds []float64) error {
		if weak.process == 2 && c.Config.Int("sms") == 32 {
			return kernels.Failf(ep.Hang, "rank 1 waits for rank 0")
		}
		return inner(c, seconds)
	}
	out = mustSweep(t, weak, inProcesses(t, 3, "uniform"), filepath.Join(t.TempDir(), "run"))
	if d := out.Run.Searches[0].Decision; d.Cause != record.Failed || !strings.Contains(d.Reason, "failed in one of 3 further processes") || out.Table != nil {
		t.Errorf("%+v, a table: %v", d, out.Table != nil)
	}
}

// TestProcessesOfGroup: the row for all routings states further processes too.
func TestProcessesOfGroup(t *testing.T) {
	b := newRenewed(shifts(1, 1.05, 1.05, 1.05))
	out := mustSweep(t, b, inProcesses(t, 3, "uniform", "zipf:1.0"), filepath.Join(t.TempDir(), "run"))
	if len(out.Run.Regrets) != 1 || len(out.Table.Rows) != 3 {
		t.Fatalf("%d matrices, %d rows", len(out.Run.Regrets), len(out.Table.Rows))
	}
	for _, r := range out.Table.Rows {
		if r.Evidence.Processes != 3 || math.Abs(r.Evidence.Gain*1.05/1.575-1) > 0.01 {
			t.Errorf("%s: %+v", r.Key.Routing, r.Evidence)
		}
	}
}

// TestProcessesResumed: a sweep that has the rounds of every process starts no other, and one
// that was interrupted among them starts those that are missing.
func TestProcessesResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	slower := shifts(1, 1.06, 1.02, 1.04, 1.04)
	ctx, cancel := context.WithCancel(context.Background())
	b := newRenewed(slower)
	inner := b.OnRun
	b.OnRun = func(c call, seconds []float64) error {
		if b.process == 2 {
			cancel()
			return ctx.Err()
		}
		return inner(c, seconds)
	}
	out, err := sweepInto(ctx, b, inProcesses(t, 3, "uniform"), dir)
	if err == nil || out.Run.Searches[0].Decision.Processes != 0 || out.Table.Rows[0].Evidence.Processes != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	b = newRenewed(slower)
	out = mustSweep(t, b, inProcesses(t, 3, "uniform"), dir)
	if b.process != 2 || out.Run.Searches[0].Decision.Processes != 3 {
		t.Errorf("%d processes, %+v", b.process, out.Run.Searches[0].Decision)
	}
	want := out.Run.Searches[0].Decision
	b = newRenewed(slower)
	out = mustSweep(t, b, inProcesses(t, 3, "uniform"), dir)
	if d := out.Run.Searches[0].Decision; b.process != 0 || d.Gain != want.Gain {
		t.Errorf("%d processes, %+v, want %+v", b.process, d.Gain, want.Gain)
	}
}

// TestProcessesRefused: a backend without a process cannot start another.
func TestProcessesRefused(t *testing.T) {
	if _, err := MakePlan(&scripted{}, inProcesses(t, 3, "uniform")); err == nil || !strings.Contains(err.Error(), "--processes: scripted measures in epbench's own process") {
		t.Errorf("%v", err)
	}
}
