package worker

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

func TestHonestWorker(t *testing.T) {
	b := openScripted(t, "honest")
	if clocks, err := b.Empty(t.Context()); err != nil || len(clocks) == 0 {
		t.Errorf("empty kernel: %v, %v", clocks, err)
	}
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		s := openWorkload(t, b, op)
		c := defaultOf(t, b, op)
		v, err := s.Verify(t.Context(), c)
		if err != nil || !v.OK() || v.Rows == 0 {
			t.Errorf("%s: verdict %+v, %v", op, v, err)
		}
		r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 3, Fold: 2})
		if err != nil || len(r.Seconds) != 3 || r.Fold != 2 {
			t.Errorf("%s: rounds %+v, %v", op, r, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMisbehaviour: the bad candidate ends with its status, is not run again, and the session stays usable.
func TestMisbehaviour(t *testing.T) {
	for _, c := range []struct {
		script   string
		status   ep.Status
		reason   string
		restarts int
	}{
		{"hang-prepare", ep.Hang, "no answer to prepare", 1},
		{"hang-run", ep.Hang, "no answer to run", 1},
		{"late-run", ep.Hang, "no answer to run", 1},
		{"crash-run", ep.Crash, "illegal memory access", 1},
		{"orphan-run", ep.Crash, "exit status 4", 1},
		{"garbage-run", ep.Hang, "%PDF-1.4 not a message", 1},
		{"fail-hang", ep.Hang, "rank 1 waited for rank 0, expert 3", 0},
		{"lie-time", ep.Unstable, "but the answer came after", 0},
		{"lie-zero", ep.Unstable, "took 0 s", 0},
		{"lie-rounds", ep.Unstable, "asked for 1 round of 1 call, got 0 rounds", 0},
	} {
		t.Run(c.script, func(t *testing.T) {
			b := openScripted(t, c.script)
			s := openWorkload(t, b, ep.Dispatch)
			good := defaultOf(t, b, ep.Dispatch)
			long := b.limits
			switch { // only for the request that hangs
			case c.script == "hang-prepare":
				b.limits.Prepare = 500 * time.Millisecond
			case c.status == ep.Hang && c.restarts > 0:
				b.limits.Round = 500 * time.Millisecond
			}
			_, err := s.Run(t.Context(), good.With("tile_tokens", "13"), kernels.RunSpec{Rounds: 1, Fold: 1})
			b.limits = long
			var f *kernels.Failure
			if !errors.As(err, &f) || f.Status != c.status || !strings.Contains(f.Reason, c.reason) {
				t.Fatalf("got %v, want %s with %q", err, c.status, c.reason)
			}
			if b.Restarts() != c.restarts {
				t.Errorf("%d restarts, want %d", b.Restarts(), c.restarts)
			}
			if err := s.Prepare(t.Context(), good.With("tile_tokens", "13")); !errors.Is(err, f) {
				t.Errorf("prepared again: %v, want the first failure", err)
			}
			if _, err := s.Run(t.Context(), good, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil {
				t.Errorf("the next candidate: %v", err)
			}
		})
	}
}

func TestLiesAboutResults(t *testing.T) {
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		b := openScripted(t, "lie-verify")
		s := openWorkload(t, b, op)
		v, err := s.Verify(t.Context(), defaultOf(t, b, op).With("tile_tokens", "13"))
		if err != nil || v.OK() {
			t.Errorf("%s: a worker that reported no wrong rows was believed: %+v, %v", op, v, err)
		}
	}
}

func TestStrayLine(t *testing.T) {
	t.Setenv(scriptEnv, "garbage-hello")
	var said []string
	b, err := Open(t.Context(), Command{Argv: []string{os.Args[0]}, Said: func(s string) { said = append(said, s) }}, DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if len(said) != 1 || !strings.HasPrefix(said[0], "Segmentation fault") {
		t.Errorf("shown: %q", said)
	}
}

// TestAnotherWorker: a restarted worker must report the same machine, build and kernels.
func TestAnotherWorker(t *testing.T) {
	for script, want := range map[string]string{
		"same":          "",
		"other-build":   `another build of its kernels after a restart: "another", before it was "scripted"`,
		"other-machine": "came back on another machine after a restart",
		"other-kernels": "came back with other kernels or parameters after a restart",
	} {
		setMark(t)
		b := openScripted(t, script)
		s := openWorkload(t, b, ep.Dispatch)
		c := defaultOf(t, b, ep.Dispatch)
		if _, err := s.Run(t.Context(), c.With("tile_tokens", "13"), kernels.RunSpec{Rounds: 1, Fold: 1}); err == nil {
			t.Fatalf("%s: the candidate did not crash", script)
		}
		_, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
	}
}

func TestKilledWorker(t *testing.T) {
	mark := setMark(t)
	b := openScripted(t, "hang-run")
	b.limits.Round = time.Minute
	s := openWorkload(t, b, ep.Dispatch)
	c := defaultOf(t, b, ep.Dispatch)
	kill := b.proc.kill
	go func() {
		awaitFile(mark)
		kill()
	}()
	_, err := s.Run(t.Context(), c.With("tile_tokens", "13"), kernels.RunSpec{Rounds: 1, Fold: 1})
	var f *kernels.Failure
	if !errors.As(err, &f) || f.Status != ep.Crash || !strings.Contains(f.Reason, "killed") {
		t.Fatalf("got %v, want a crash by signal", err)
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// TestAhead: a worker gets configs before the request prepare if its welcome asks for them.
func TestAhead(t *testing.T) {
	b := openScripted(t, "forewarned")
	s := openWorkload(t, b, ep.Dispatch)
	c := defaultOf(t, b, ep.Dispatch)
	b.Precompile(s.(*session).workload.Problem, []ep.Config{c})
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Errorf("a config that was announced: %v", err)
	}
	if err := s.Prepare(t.Context(), c.With("tile_tokens", "32")); err == nil || !strings.Contains(err.Error(), "never heard of") {
		t.Errorf("a config that was not announced: %v", err)
	}
	if openScripted(t, "honest").welcome.Ahead {
		t.Error("the backend has no method Precompile, but its welcome asks for configs to compile early")
	}
}
