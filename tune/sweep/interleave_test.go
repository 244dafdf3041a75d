package sweep

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// drifting returns a run whose times rise with every round. The config takes `us` microseconds, and the
// default twice as long.
func drifting(t *testing.T, clock *atomic.Int64, us float64) (*InterleavedRun, *memory) {
	b := &scripted{Sigma: 0.001, Truth: func(_ ep.Problem, _ string, c ep.Config) float64 {
		if c.Key() == dfltKey {
			return 2e-6 * us
		}
		return 1e-6 * us
	}}
	b.OnRun = func(_ call, seconds []float64) error {
		now := clock.Add(1)
		for i := range seconds {
			seconds[i] *= 1 + float64(now)/200
		}
		return nil
	}
	log := &memory{}
	return &InterleavedRun{Backend: b, Options: &Options{Seed: 1}, Job: Job{Rounds: 30, Log: log, Run: &record.Run{}}}, log
}

func interleavingOf(t *testing.T, sides ...*InterleavedRun) Interleaving {
	p := options(t, "dispatch", []int{16}, "uniform").Problems[0]
	h := Interleaving{Routing: "uniform", Seed: 1}
	for _, s := range sides {
		h.Sides = append(h.Sides, Side{Run: s, Problem: p, Config: parse(t, best), Default: parse(t, dfltKey)})
	}
	return h
}

func roundTimes(log *memory, key string) map[int]float64 {
	out := map[int]float64{}
	for _, l := range log.lines {
		if l.Stage == record.StageTurns && l.Config.Key() == key {
			for k, s := range l.Rounds() {
				out[l.Round0+k] = s
			}
		}
	}
	return out
}

func TestInterleaveUnderDrift(t *testing.T) {
	var clock atomic.Int64
	a, logA := drifting(t, &clock, 10)
	b, logB := drifting(t, &clock, 11)
	if err := Interleave(context.Background(), []Interleaving{interleavingOf(t, a, b)}, func(Interleaving) {}); err != nil {
		t.Fatal(err)
	}
	fast, slow := roundTimes(logA, best), roundTimes(logB, best)
	if len(fast) != 30 || len(slow) != 30 || fast[29] < 1.5*fast[0] {
		t.Fatalf("%d and %d rounds, drift %g; want 30 and a drift", len(fast), len(slow), fast[29]/fast[0])
	}
	var la, lb []float64
	for r := range 30 {
		la, lb = append(la, math.Log(slow[r])), append(lb, math.Log(fast[r]))
	}
	if g := stat.PairedRatio(la, lb); g.Low > 1.1 || g.High < 1.1 || g.High-g.Low > 0.05 {
		t.Errorf("the slower config takes %+v times as long, want 1.1", g)
	}
	for _, s := range []*InterleavedRun{a, b} {
		got := s.Job.Run.Searches
		if len(got) != 1 || got[0].Decision.Verdict != record.Faster || got[0].Decision.Rounds != 30 || math.Abs(got[0].Decision.Gain.Mid-2) > 0.05 || got[0].Times.Median == 0 {
			t.Errorf("%+v", got)
		}
		if s.Job.Run.Finished.IsZero() || len(s.Job.Run.Workloads) != 1 {
			t.Errorf("run is not finished: %+v", s.Job.Run)
		}
	}
}

// TestInterleaveLosesOne: if one side fails, the other side runs all its rounds.
func TestInterleaveLosesOne(t *testing.T) {
	faults := map[string]func(*scripted){
		"hang: rank 1 waits": func(b *scripted) {
			b.OnRun = func(c call, _ []float64) error {
				if c.Config.Key() == best && c.Runs == 9 {
					return kernels.Failf(ep.Hang, "rank 1 waits")
				}
				return nil
			}
		},
		"mismatch: 3 of 16":     func(b *scripted) { b.OnVerify = wrong(best, 1) },
		"no session: no memory": func(b *scripted) { b.OnOpen = func(int) error { return errors.New("no memory") } },
	}
	for reason, fault := range faults {
		var clock atomic.Int64
		a, log := drifting(t, &clock, 10)
		b, _ := drifting(t, &clock, 11)
		fault(b.Backend.(*scripted))
		if err := Interleave(context.Background(), []Interleaving{interleavingOf(t, b, a)}, func(Interleaving) {}); err != nil {
			t.Fatal(err)
		}
		bad, good := b.Job.Run.Searches, a.Job.Run.Searches
		if len(bad) != 1 || bad[0].OK() || !strings.Contains(bad[0].Decision.Reason, reason) {
			t.Errorf("%s: %+v", reason, bad)
		}
		if len(good) != 1 || !good[0].OK() || len(roundTimes(log, best)) != 30 {
			t.Errorf("%s: the other side has %d rounds, %+v", reason, len(roundTimes(log, best)), good)
		}
	}
}

func TestInterleaveDefaultAlone(t *testing.T) {
	var clock atomic.Int64
	a, log := drifting(t, &clock, 10)
	h := interleavingOf(t, a)
	h.Sides[0].Config = h.Sides[0].Default
	ctx, cancel := context.WithCancel(context.Background())
	if err := Interleave(ctx, []Interleaving{h}, func(Interleaving) { cancel() }); err != nil || len(roundTimes(log, dfltKey)) != 30 || a.Job.Run.Searches[0].Decision.Gain != record.One {
		t.Errorf("%v, %d rounds, %+v", err, len(roundTimes(log, dfltKey)), a.Job.Run.Searches)
	}
	if err := Interleave(ctx, []Interleaving{h}, func(Interleaving) {}); !errors.Is(err, context.Canceled) || len(a.Job.Run.Searches) != 1 {
		t.Errorf("after a cancellation: %v, %d searches", err, len(a.Job.Run.Searches))
	}
}

func TestInterleaveChecksAtOnce(t *testing.T) {
	var clock atomic.Int64
	a, _ := drifting(t, &clock, 10)
	b, _ := drifting(t, &clock, 11)
	var begun sync.WaitGroup
	begun.Add(2)
	for _, s := range []*InterleavedRun{a, b} {
		var first sync.Once
		s.Backend.(*scripted).OnVerify = func(call) (int, error) {
			var err error
			first.Do(func() {
				begun.Done()
				both := make(chan struct{})
				go func() { begun.Wait(); close(both) }()
				select {
				case <-both:
				case <-time.After(10 * time.Second):
					err = errors.New("the other side does not check")
				}
			})
			return 0, err
		}
	}
	if err := Interleave(context.Background(), []Interleaving{interleavingOf(t, a, b)}, func(Interleaving) {}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*InterleavedRun{a, b} {
		if got := s.Job.Run.Searches; !got[0].OK() || s.Job.Run.Wall.Checking == 0 {
			t.Errorf("%+v, %+v", got, s.Job.Run.Wall)
		}
	}
}
