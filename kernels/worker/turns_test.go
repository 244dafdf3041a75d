package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestTurns: if a turn fails, the turns before and after it are measured. The test sends one or several turns in a
// request.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		script string
		status ep.Status
		reason string
	}{
		{"honest", ep.OK, ""},
		{"crash-run", ep.Crash, "illegal memory access"},
		{"fail-hang", ep.Hang, "rank 1 waited for rank 0, expert 3"},
		{"lie-time", ep.Unstable, "but the answer came after"},
		{"lie-rounds", ep.Unstable, "asked for 1 round of 2 calls, got 0 rounds"},
	} {
		for _, knows := range []bool{true, false} {
			b := openScripted(t, c.script)
			b.welcome.Turns = knows
			s := openWorkload(t, b, ep.Dispatch)
			good := defaultOf(t, b, ep.Dispatch)
			turns := []kernels.Turn{{Config: good, Fold: 3}, {Config: good.With("tile_tokens", "13"), Fold: 2}, {Config: good, Fold: 1}}
			done, err := kernels.RunTurns(t.Context(), s, turns)
			var f *kernels.Failure
			if c.status != ep.OK {
				if !errors.As(err, &f) || f.Status != c.status || !strings.Contains(f.Reason, c.reason) {
					t.Fatalf("%s, turns %v: %v, want %s with %q", c.script, knows, err, c.status, c.reason)
				}
				var last []kernels.Rounds
				last, err = kernels.RunTurns(t.Context(), s, turns[2:])
				done = append(done, last...)
				turns = slices.Delete(turns, 1, 2)
			}
			if err != nil || len(done) != len(turns) {
				t.Fatalf("%s, turns %v: %d rounds, %v", c.script, knows, len(done), err)
			}
			for i, r := range done {
				if r.Fold != turns[i].Fold {
					t.Errorf("%s, turns %v: round %d has fold %d, want %d", c.script, knows, i, r.Fold, turns[i].Fold)
				}
			}
			b.Close()
		}
	}
}

func TestManyTurns(t *testing.T) {
	b := openScripted(t, "honest")
	s := openWorkload(t, b, ep.Dispatch)
	turns := slices.Repeat([]kernels.Turn{{Config: defaultOf(t, b, ep.Dispatch), Fold: 1}}, mostTurns+1)
	if done, err := kernels.RunTurns(t.Context(), s, turns); err != nil || len(done) != mostTurns {
		t.Errorf("%d of %d turns, %v", len(done), len(turns), err)
	}
}

// TestLostTurns: a request of several turns hangs, but each turn alone does not. From then on the session sends each
// turn alone, so the worker restarts only once.
func TestLostTurns(t *testing.T) {
	b := openScripted(t, "honest")
	s := openWorkload(t, b, ep.Dispatch).(*session)
	turns := slices.Repeat([]kernels.Turn{{Config: defaultOf(t, b, ep.Dispatch), Fold: 1}}, 2)
	for range 2 {
		b.proc.timeout = func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
			if limit > b.limits.Round && limit == s.runLimit(1)+2*turnLimit {
				limit = 0
			}
			return timed(ctx, limit)
		}
		if done, err := s.RunTurns(t.Context(), turns); err != nil || len(done) != len(turns) {
			t.Fatalf("%d of %d turns, %v", len(done), len(turns), err)
		}
	}
	if b.Restarts() != 1 {
		t.Errorf("%d restarts, want 1", b.Restarts())
	}
	if l := b.Losses(); len(l) != 1 || !strings.Contains(l[0], methodTurns) {
		t.Errorf("losses %q, want one of %s", l, methodTurns)
	}
}

// TestLostBetween: if a worker ends between two requests, the method Losses says so.
func TestLostBetween(t *testing.T) {
	b := openScripted(t, "honest")
	said := ""
	b.command.Said = func(line string) { said += line }
	b.proc.kill()
	<-b.proc.done
	openWorkload(t, b, ep.Dispatch)
	if l := b.Losses(); len(l) != 1 || !strings.Contains(l[0], "worker died: signal: killed") || !strings.Contains(said, l[0]) {
		t.Errorf("losses %q, said %q", l, said)
	}
}

// TestEffects: a worker's explanation must have as many rounds with a load as without it.
func TestEffects(t *testing.T) {
	for _, c := range []struct {
		with []float64
		want string
	}{{[]float64{2, 2}, ""}, {[]float64{2}, "2 rounds of the product alone and 1 with the load"}} {
		err := checkEffects([]kernels.Effect{{Load: "x", Alone: []float64{1, 1}, With: c.with}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.with, err, c.want)
		}
	}
}

func TestFewerRounds(t *testing.T) {
	b := openScripted(t, "honest")
	s := openWorkload(t, b, ep.Dispatch).(*session)
	c := defaultOf(t, b, ep.Dispatch)
	one, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1})
	if err != nil {
		t.Fatal(err)
	}
	turns := slices.Repeat([]kernels.Turn{{Config: c, Fold: 1}}, 3)
	if done, err := s.plausibleRounds(turns, TurnsReply{Rounds: []kernels.Rounds{one, one}}, time.Hour); err != nil || len(done) != 2 {
		t.Errorf("%d turns, %v", len(done), err)
	}
	var f *kernels.Failure
	if done, err := s.plausibleRounds(turns, TurnsReply{}, time.Hour); !errors.As(err, &f) || f.Status != ep.Unstable || len(done) != 0 {
		t.Errorf("%d turns, %v, want unstable", len(done), err)
	}
}
