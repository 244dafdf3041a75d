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

func parse(t *testing.T, key string) ep.Config {
	t.Helper()
	c, err := ep.ParseConfig(key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const dfltKey = "dispatch:algo=direct,sms=8,threads=256"

// verifyCases lists results that the commands `table verify` and `bench` must give.
var verifyCases = []struct {
	name    string
	backend scripted
	config  string
	verdict record.Verdict
	cause   record.Cause
	reason  string
	noisy   bool
}{
	{"faster", scripted{Sigma: 0.01}, best, record.Faster, "", "", false},
	{"slower", scripted{Sigma: 0.01, Truth: func(_ ep.Problem, _ string, c ep.Config) float64 {
		return 1e-5 * float64(c.Int("sms"))
	}}, best, record.Slower, "", "", false},
	{"the same", scripted{Sigma: 0.001, Truth: func(ep.Problem, string, ep.Config) float64 { return 1e-5 }}, best, record.Same, "", "", false},
	{"the default itself", scripted{Sigma: 0.01}, dfltKey, record.Same, "", "", false},
	{"a noisy machine", scripted{Sigma: 0.8}, best, record.Undecided, record.Noisy, "varies by", true},
	{"wrong before timing", scripted{OnVerify: wrong(best, 0)}, best, record.Undecided, record.Failed, "mismatch: 3 of 16", false},
	{"wrong after timing", scripted{OnVerify: wrong(best, 1)}, best, record.Undecided, record.Failed, "mismatch: 3 of 16", false},
	{"hangs", scripted{OnRun: func(c call, _ []float64) error {
		if c.Config.Key() == best && c.Runs == 5 {
			return kernels.Failf(ep.Hang, "rank 1 waits")
		}
		return nil
	}}, best, record.Undecided, record.Failed, "hang: rank 1 waits", false},
	{"the default is wrong before timing", scripted{OnVerify: wrong(dfltKey, 0)}, best, record.Undecided, record.NoDefault, "the default failed: mismatch", false},
	{"the default is wrong after timing", scripted{OnVerify: wrong(dfltKey, 1)}, best, record.Undecided, record.NoDefault, "the default failed: mismatch", false},
	{"only the default is measured, and is wrong after timing", scripted{OnVerify: wrong(dfltKey, 1)}, dfltKey, record.Undecided, record.NoDefault, "the default failed: mismatch", false},
}

// wrong returns an OnVerify that fails from a config's nth comparison on, counted from 0.
func wrong(key string, nth int) func(call) (int, error) {
	return func(c call) (int, error) {
		if c.Config.Key() == key && c.Verify >= nth {
			return 3, nil
		}
		return 0, nil
	}
}

func TestVerify(t *testing.T) {
	p := options(t, "dispatch", []int{16}, "uniform").Problems[0]
	for _, c := range verifyCases {
		t.Run(c.name, func(t *testing.T) {
			b := c.backend
			cfg := parse(t, c.config)
			got, err := NewRowVerifier(&b, measure.PolicyFor(b.Machine()), table.Header{}, 1).Verify(context.Background(), p, "uniform", cfg, 0)
			if err != nil {
				t.Fatal(err)
			}
			d := got.Decision
			if d.Verdict != c.verdict || d.Cause != c.cause || !strings.Contains(d.Reason, c.reason) {
				t.Errorf("%s, cause %q, %q", d.Verdict, d.Cause, d.Reason)
			}
			if d.Config.Key() != c.config || d.Default.Key() != dfltKey || d.Band.Policy != 0.01 || got.Problem != p || got.Routing != "uniform" || got.Class != ep.Even {
				t.Errorf("%+v", got)
			}
			if measured := c.cause == "" || c.noisy; measured && (d.Rounds < 50 || got.Clock != "wall" || got.Times.Median <= 0 || got.DefaultTimes.Median <= 0) {
				t.Errorf("%+v", got)
			}
			if c.name == "faster" && math.Abs(d.Gain.Mid/(1.5*1.05)-1) > 0.02 {
				t.Errorf("gain %v", d.Gain)
			}
		})
	}
}

func TestVerifyEarlierBuild(t *testing.T) {
	p := options(t, "dispatch", []int{16}, "uniform").Problems[0]
	b := &scripted{Sigma: 0.01}
	got, err := NewRowVerifier(b, measure.PolicyFor(b.Machine()), table.Header{}, 1).Verify(context.Background(), p, "uniform", parse(t, "dispatch:sms=32,threads=512"), 0)
	if d := got.Decision; err != nil || d.Verdict != record.Faster || d.Config.Key() != best {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestVerifyWhatCannotRun: a config that cannot run is no error, but a lost machine is an error.
func TestVerifyWhatCannotRun(t *testing.T) {
	p := options(t, "dispatch", []int{16}, "uniform").Problems[0]
	for _, c := range []struct{ config, routing, reason string }{
		{"dispatch:algo=direct,sms=99,threads=256", "uniform", "sms: 99 is outside 1 to 64"},
		{"warp:sms=1", "uniform", `"warp"`},
		{best, "zopf:1", "routing zopf:1"},
		{best, "trace:gone.ept", "routing trace:gone.ept"},
	} {
		b := &scripted{}
		got, err := NewRowVerifier(b, measure.PolicyFor(b.Machine()), table.Header{}, 1).Verify(context.Background(), p, c.routing, parse(t, c.config), 0)
		if d := got.Decision; err != nil || d.Cause != record.Failed || !strings.Contains(d.Reason, c.reason) || got.Routing != c.routing || b.Opened > 0 {
			t.Errorf("%s under %s: %+v, %v", c.config, c.routing, d, err)
		}
	}
	gone := errors.New("the worker died")
	for name, after := range map[string]int{"in the A/A test": 30, "in the rounds": 100} {
		b := &scripted{Sigma: 0.01, OnRun: func(c call, _ []float64) error {
			if c.All > after {
				return gone
			}
			return nil
		}}
		if _, err := NewRowVerifier(b, measure.PolicyFor(b.Machine()), table.Header{}, 1).Verify(context.Background(), p, "uniform", parse(t, best), 0); !errors.Is(err, measure.ErrLost) {
			t.Errorf("lost %s: %v", name, err)
		}
	}
}

// TestVerifyWithinSMs: gains are relative to the default that takes at most MaxSMs SMs.
func TestVerifyWithinSMs(t *testing.T) {
	p := options(t, "dispatch", []int{16}, "uniform").Problems[0]
	b := &scripted{Sigma: 0.01, SMs: []int{2, 4, 8}}
	got, err := NewRowVerifier(b, measure.PolicyFor(b.Machine()), table.Header{MaxSMs: 6}, 1).Verify(context.Background(), p, "uniform", parse(t, "dispatch:algo=direct,sms=2,threads=256"), 0)
	if err != nil || got.Decision.Default.Int("sms") != 4 {
		t.Errorf("measured against %s, %v", got.Decision.Default.Key(), err)
	}
}

func benched(b kernels.Backend, o *Options, cfg ep.Config, reason string) (*record.Run, error) {
	run := &record.Run{}
	return run, Bench(context.Background(), b, o, Job{Rounds: 40, Run: run}, func(ep.Problem, ep.Class) (ep.Config, string, error) { return cfg, reason, nil })
}

func TestBench(t *testing.T) {
	for _, c := range verifyCases {
		if c.noisy {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b := c.backend
			run, err := benched(&b, options(t, "dispatch", []int{16}, "uniform"), parse(t, c.config), "table: exact")
			if err != nil || len(run.Searches) != 1 || len(run.Workloads) != 1 || run.Finished.IsZero() {
				t.Fatalf("%+v, %v", run, err)
			}
			s := run.Searches[0]
			if d := s.Decision; d.Verdict != c.verdict || d.Cause != c.cause || !strings.Contains(d.Reason, c.reason) || d.Config.Key() != c.config || d.Band != (record.Band{Policy: 0.01}) {
				t.Errorf("%+v", d)
			}
			if c.cause == "" && (s.Decision.Reason != "table: exact" || s.Decision.Rounds != 40 || s.Bytes == 0) {
				t.Errorf("%+v", s)
			}
			if failed := c.cause != ""; failed != (s.Failed > 0) {
				t.Errorf("%d failed", s.Failed)
			}
		})
	}
}

// TestBenchOfManyAndOfNone: a zero config stands for the default.
func TestBenchOfManyAndOfNone(t *testing.T) {
	o := options(t, "dispatch,combine", []int{8, 16}, "uniform", "zipf:1.5")
	b := &scripted{}
	run, err := benched(b, o, ep.Config{}, "")
	if err != nil || len(run.Searches) != 8 || len(run.Workloads) != 8 {
		t.Fatalf("%d searches, %v", len(run.Searches), err)
	}
	for _, s := range run.Searches {
		if d := s.Decision; !d.KeepsDefault() || d.Verdict != record.Same || d.Gain != record.One || d.Config.Kernel != string(s.Problem.Op) {
			t.Errorf("%s: %+v", s.Problem.Key(), d)
		}
	}
	if b.Opened != 8 {
		t.Errorf("%d sessions", b.Opened)
	}
	if _, err := benched(b, o, parse(t, "dispatch:algo=direct,sms=99,threads=256"), ""); err == nil || !strings.Contains(err.Error(), "cannot run dispatch here") {
		t.Errorf("an illegal config: %v", err)
	}
	none := errors.New("no row")
	run = &record.Run{}
	err = Bench(context.Background(), b, o, Job{Rounds: 4, Run: run}, func(ep.Problem, ep.Class) (ep.Config, string, error) { return ep.Config{}, "", none })
	if !errors.Is(err, none) || len(run.Searches) > 0 || !run.Finished.IsZero() {
		t.Errorf("a picker that fails: %v", err)
	}
}

type memory struct{ lines []record.Result }

func (m *memory) Append(block []record.Result, _ float64) error {
	m.lines = append(m.lines, block...)
	return nil
}

// TestAB: A stands for the default and has a twin.
func TestAB(t *testing.T) {
	log, run := &memory{}, &record.Run{}
	o := options(t, "dispatch", []int{16}, "uniform")
	configs := map[ep.Problem][]ep.Config{o.Problems[0]: {parse(t, best), parse(t, dfltKey)}}
	if err := AB(context.Background(), &scripted{Sigma: 0.01}, o, Job{Rounds: 6, Log: log, Run: run}, configs); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range log.lines {
		got = append(got, strings.Join([]string{string(l.Stage), string(l.Role), l.Config.Key()}, " "))
		if l.Stage == record.StageAB && len(l.Seconds) != 6 {
			t.Errorf("%d rounds", len(l.Seconds))
		}
	}
	want := []string{"ab default " + best, "ab candidate " + dfltKey, "ab twin " + best, "recheck default " + best, "recheck candidate " + dfltKey}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(run.Workloads) != 1 || run.Finished.IsZero() {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	configs[o.Problems[0]][1] = parse(t, "dispatch:algo=direct,sms=99,threads=256")
	if err := AB(context.Background(), &scripted{}, o, Job{Rounds: 6, Log: log, Run: run}, configs); err == nil || !strings.Contains(err.Error(), "cannot run dispatch here") {
		t.Errorf("an illegal config: %v", err)
	}
}
