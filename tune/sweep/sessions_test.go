package sweep

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
)

// moody returns a backend that multiplies times by slower(session, config). The first session is 1.
func moody(slower func(session int, c ep.Config) float64) *scripted {
	b := &scripted{Sigma: 0.002}
	b.OnRun = func(c call, seconds []float64) error {
		for i := range seconds {
			seconds[i] *= slower(b.Opened, c.Config)
		}
		return nil
	}
	return b
}

func shifts(by ...float64) func(int, ep.Config) float64 {
	return func(session int, c ep.Config) float64 {
		if c.Int("sms") != 32 {
			return 1
		}
		return by[session-1]
	}
}

func inSessions(t *testing.T, n int, routings ...string) *Options {
	o := options(t, "dispatch", []int{8}, routings...)
	o.Sessions = n
	return o
}

// TestSessions: times and gains come from the further sessions only.
func TestSessions(t *testing.T) {
	b := moody(shifts(1, 1.06, 1.02, 1.1, 1.04, 1.08))
	out := mustSweep(t, b, inSessions(t, 5, "uniform"), t.TempDir())
	s := out.Run.Searches[0]
	gain := s.DefaultTimes.Median / s.Times.Median
	if d := s.Decision; d.Sessions != 5 || d.Rounds != 5*25 || d.Config.Int("sms") != 32 || math.Abs(d.Gain.Mid*1.06/1.575-1) > 0.01 || math.Abs(gain/d.Gain.Mid-1) > 0.01 {
		t.Errorf("%+v, times %.3f", d, gain)
	}
	if i := s.Decision.Gain; i.Low*1.1 > 1.575*1.01 || i.High*1.02 < 1.575*0.99 {
		t.Errorf("%+v does not cover the gains of the sessions", i)
	}
	row := out.Table.Rows[0].Evidence
	if row.Sessions != 5 || row.Median != s.Times.Median || row.Gain != s.Decision.Gain.Mid || row.GainLow != s.Decision.Gain.Low {
		t.Errorf("the row says %+v", row)
	}
}

// TestSessionsWithdraw: a config that fails or loses in a further session is not chosen.
func TestSessionsWithdraw(t *testing.T) {
	lucky := moody(shifts(1, 1.6, 1.5, 1.7))
	out := mustSweep(t, lucky, inSessions(t, 3, "uniform"), t.TempDir())
	d := out.Run.Searches[0].Decision
	if !d.KeepsDefault() || d.Sessions != 3 || !strings.Contains(d.Reason, "not certainly faster in 3 further sessions") || !out.Table.Rows[0].Default {
		t.Errorf("%+v", d)
	}
	weak := moody(shifts(1, 1, 1, 1))
	inner := weak.OnRun
	weak.OnRun = func(c call, seconds []float64) error {
		if weak.Opened == 3 && c.Config.Int("sms") == 32 {
			return kernels.Failf(ep.Hang, "rank 1 waits for rank 0")
		}
		return inner(c, seconds)
	}
	out = mustSweep(t, weak, inSessions(t, 3, "uniform"), t.TempDir())
	if d := out.Run.Searches[0].Decision; d.Cause != record.Failed || !strings.Contains(d.Reason, "failed in one of 3 further sessions") || out.Table != nil {
		t.Errorf("%+v, a table: %v", d, out.Table != nil)
	}
}

func TestSessionsOfGroup(t *testing.T) {
	b := moody(func(session int, c ep.Config) float64 {
		if session > 2 && c.Int("sms") == 32 {
			return 1.05
		}
		return 1
	})
	out := mustSweep(t, b, inSessions(t, 3, "uniform", "zipf:1.0"), t.TempDir())
	if len(out.Run.Regrets) != 1 || len(out.Table.Rows) != 3 {
		t.Fatalf("%d regret matrices and %d rows, want 1 and 3", len(out.Run.Regrets), len(out.Table.Rows))
	}
	for _, r := range out.Table.Rows {
		if r.Evidence.Sessions != 3 || math.Abs(r.Evidence.Gain*1.05/1.575-1) > 0.01 {
			t.Errorf("%s: %+v", r.Key.Routing, r.Evidence)
		}
	}
}

func TestSessionsResumed(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	b := moody(shifts(1, 1.06, 1.02))
	inner := b.OnRun
	b.OnRun = func(c call, seconds []float64) error {
		if b.Opened == 3 {
			cancel()
			return ctx.Err()
		}
		return inner(c, seconds)
	}
	out, err := sweepInto(ctx, b, inSessions(t, 3, "uniform"), dir)
	if !errors.Is(err, context.Canceled) || out.Run.Searches[0].Decision.Sessions != 0 || out.Table.Rows[0].Evidence.Sessions != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	b = moody(shifts(1.02, 1.04))
	out = mustSweep(t, b, inSessions(t, 3, "uniform"), dir)
	want := out.Run.Searches[0].Decision
	if b.Opened != 2 || want.Sessions != 3 {
		t.Errorf("%d sessions opened, %+v", b.Opened, want)
	}
	b = moody(nil)
	out = mustSweep(t, b, inSessions(t, 3, "uniform"), dir)
	if d := out.Run.Searches[0].Decision; b.Opened != 0 || d.Gain != want.Gain {
		t.Errorf("%d sessions opened, %+v, want %+v", b.Opened, d.Gain, want.Gain)
	}
}

const fast = "dispatch:algo=direct,sms=32,threads=512"

// TestBenchSessions: the result is the median of the sessions.
func TestBenchSessions(t *testing.T) {
	b := moody(shifts(1.06, 1.02, 1.1, 1.04, 1.08, 1))
	o, run := options(t, "dispatch", []int{8}, "uniform"), &record.Run{}
	pick := func(ep.Problem, ep.Class) (ep.Config, string, error) { return parse(t, fast), "", nil }
	if err := Bench(context.Background(), b, o, Job{Rounds: 10, Sessions: 5, Run: run}, pick); err != nil {
		t.Fatal(err)
	}
	d := run.Searches[0].Decision
	if d.Sessions != 5 || d.Rounds != 50 || math.Abs(d.Gain.Mid*1.06/1.575-1) > 0.01 || d.Gain.Low*1.1 > 1.575*1.01 || d.Verdict != record.Faster {
		t.Errorf("%+v", d)
	}
	b = moody(shifts(1, 1, 1, 1))
	b.OnRun = func(c call, _ []float64) error {
		if b.Opened == 2 && c.Config.Key() == fast {
			return kernels.Failf(ep.Hang, "rank 1 waits for rank 0")
		}
		return nil
	}
	run = &record.Run{}
	if err := Bench(context.Background(), b, o, Job{Rounds: 10, Sessions: 3, Run: run}, pick); err != nil {
		t.Fatal(err)
	}
	if d := run.Searches[0].Decision; d.Cause != record.Failed || b.Opened != 2 {
		t.Errorf("%d sessions opened, %+v", b.Opened, d)
	}
}

func TestVerifySessions(t *testing.T) {
	b := moody(func(int, ep.Config) float64 { return 1 })
	p := options(t, "dispatch", []int{8}, "uniform").Problems[0]
	got, err := NewRowVerifier(b, measure.PolicyFor(b.Machine()), table.Header{}, 1).Verify(context.Background(), p, "uniform", parse(t, fast), 24)
	if d := got.Decision; err != nil || d.Sessions != maxVerifySessions || d.Rounds != 25*maxVerifySessions || d.Verdict != record.Faster {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestSessionsBeside(t *testing.T) {
	b := moody(shifts(1, 2, 2, 2))
	o := inSessions(t, 3, "uniform")
	o.Problems[0].Beside, o.Problems[0].Objective = "copy", ep.BesideProduct
	s := mustSweep(t, b, o, t.TempDir()).Run.Searches[0]
	if s.Beside == nil {
		t.Fatal("the times of the product are missing")
	}
	if d := s.Decision; !d.KeepsDefault() || d.Sessions != 3 || math.Abs(s.Beside.Config.Both.Mid-100e-6-s.DefaultTimes.Median) > 1e-8 {
		t.Errorf("%+v, %+v beside %+v", d, s.Beside.Config.Both, s.DefaultTimes)
	}
	b = moody(shifts(1, 1.2, 1.2, 1.2))
	s = mustSweep(t, b, o, t.TempDir()).Run.Searches[0]
	if d := s.Decision; d.KeepsDefault() || math.Abs(s.Beside.Config.Both.Mid-100e-6-s.Times.Median) > 1e-8 || math.Abs(s.Beside.Config.Both.Mid-100e-6-1.2e-5*1.5) > 1e-6 {
		t.Errorf("%+v, %+v beside %+v", d, s.Beside.Config.Both, s.Times)
	}
}

type lossy struct {
	scripted
	lost []string
}

func (l *lossy) Losses() []string { return l.lost }

func TestLosses(t *testing.T) {
	for lost, want := range map[int]string{0: "", 1: "started again 1 time, and no config was the cause: gone 1;", 2: "started again 2 times, and no config was the cause: gone 1;"} {
		got := strings.Join(workerLosses(&lossy{lost: []string{"gone 1", "gone 2"}[:lost]}), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d losses: %q, want %q", lost, got, want)
		}
	}
	if got := workerLosses(&scripted{}); got != nil {
		t.Errorf("a backend that counts no losses: %q", got)
	}
}

func TestSessionsByDefault(t *testing.T) {
	out := mustSweep(t, moody(func(session int, _ ep.Config) float64 { return 1 + 0.01*float64(session%3) }), inSessions(t, DefaultSessions, "uniform", "zipf:1.0"), t.TempDir())
	for i, s := range out.Run.Searches {
		aa := out.Run.AA[i].Sessions
		if s.Decision.Sessions != 3 || aa == nil || math.Abs(aa.Ratio.Mid-1) > 0.01 {
			t.Errorf("%s: %+v, A/A %+v", s.Routing, s.Decision, aa)
		}
	}
	for _, r := range out.Table.Rows {
		if r.Evidence.Sessions != 3 {
			t.Errorf("%s: %+v", r.Key.Routing, r.Evidence)
		}
	}
	if warned := strings.Join(out.Run.Warnings, "\n"); strings.Contains(warned, "one session") {
		t.Errorf("warnings %q", warned)
	}
	one := mustSweep(t, &scripted{Sigma: 0.002}, inSessions(t, 1, "uniform"), t.TempDir())
	if warned := strings.Join(one.Run.Warnings, "\n"); one.Run.Searches[0].Decision.Sessions != 0 || !strings.Contains(warned, "the interval comes from one session") {
		t.Errorf("%+v, warnings %q", one.Run.Searches[0].Decision, warned)
	}
}

// TestUncertainRowsSaySo: an uncertain row claims no gain and gives a reason.
func TestUncertainRowsSaySo(t *testing.T) {
	g := func(verdicts ...record.Verdict) group {
		var out group
		for _, v := range verdicts {
			c := &activeSearch{}
			c.result.Decision = record.Decision{Verdict: v, Band: record.Band{Policy: 0.01}}
			out = append(out, c)
		}
		return out
	}
	for _, c := range []struct {
		name           string
		low, mid, high float64
		g              group
		dflt           bool
		reason         string
		gain           float64
	}{
		{"certain", 1.1, 1.2, 1.3, g(record.Faster, record.Faster), false, "", 1.2},
		{"faster under one routing", 0.983, 1.046, 1.181, g(record.Faster, record.Undecided), false, "compromise of 2 routings", 1},
		{"a default kept without certainty", 1, 1, 1, g(record.Undecided), true, "kept", 1},
		{"a default that nothing beats", 1, 1, 1, g(record.Slower), true, "", 1},
	} {
		e := table.Evidence{Gain: c.mid, GainLow: c.low, GainHigh: c.high}
		explain(&e, c.g, ep.Config{}, c.dflt)
		if e.Reason != c.reason || e.Gain != c.gain || c.reason != "" && (e.GainLow != 1 || e.GainHigh != 1) {
			t.Errorf("%s: %+v", c.name, e)
		}
		if got := (table.Header{MaxSMs: 8}).IsDefault(table.Row{Evidence: e}); got != c.dflt {
			t.Errorf("%s: with a bound on SMs, IsDefault is %v", c.name, got)
		}
	}
}
