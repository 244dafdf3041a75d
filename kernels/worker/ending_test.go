package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// soon is a time in which a busy host kills a process, and no worker that hangs ends.
const soon = 30 * time.Second

// within fails the test where f takes too long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatalf("%s: not done within %v", what, soon)
	}
}

// TestCancelledHang: who interrupts a worker that hangs waits for it no longer, and it leaves
// no process.
func TestCancelledHang(t *testing.T) {
	for _, launched := range []bool{false, true} {
		t.Run(fmt.Sprintf("launched %v", launched), func(t *testing.T) {
			mark := setMark(t)
			open := openScripted
			if launched {
				open = func(t *testing.T, script string) *Backend {
					b, _ := openLaunched(t, script, "idle")
					return b
				}
			}
			b := open(t, "hang-run")
			s, c := openWorkload(t, b, ep.Dispatch), defaultOf(t, b, ep.Dispatch).With("tile_tokens", "13")
			p := b.proc
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				awaitFile(mark)
				cancel()
			}()
			if _, err := s.Run(ctx, c, kernels.RunSpec{Rounds: 1, Fold: 1}); !errors.Is(err, context.Canceled) {
				t.Errorf("run: %v", err)
			}
			within(t, "closing", func() {
				if err := errors.Join(s.Close(), b.Close()); err != nil {
					t.Error(err)
				}
			})
			if p.cmd.ProcessState == nil {
				t.Error("the process is still there")
			}
		})
	}
}

// TestLostSession: a worker hangs or crashes in open or close. The session is lost, and the next one gets a
// new process.
func TestLostSession(t *testing.T) {
	for _, script := range []string{"hang-open", "crash-open", "hang-close", "crash-close"} {
		t.Run(script, func(t *testing.T) {
			setMark(t)
			b := openScripted(t, script)
			b.limits.Open = 2 * time.Second
			var said []string
			b.command.Said = func(line string) { said = append(said, line) }
			w := drawn(t, ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 256, Experts: 8, TopK: 2,
				Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16}, "uniform")
			within(t, "the first session", func() {
				s, err := b.Open(t.Context(), w)
				if strings.HasSuffix(script, "-open") {
					if err == nil {
						t.Error("no error")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil || len(said) != 1 || !strings.Contains(said[0], "close") {
					t.Errorf("%v, said %q", err, said)
				}
			})
			b.limits.Open = time.Minute
			s, err := b.Open(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(t.Context(), defaultOf(t, b, ep.Dispatch), kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || b.Restarts() != 1 {
				t.Errorf("%v, %d restarts", err, b.Restarts())
			}
		})
	}
}

// TestDiedBetween: a worker that dies between two requests is started again, and no candidate
// is blamed.
func TestDiedBetween(t *testing.T) {
	b := openScripted(t, "honest")
	s, c := openWorkload(t, b, ep.Dispatch), defaultOf(t, b, ep.Dispatch)
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.proc.kill()
	<-b.proc.done
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || b.Restarts() != 1 {
		t.Errorf("%v, %d restarts", err, b.Restarts())
	}
}

// TestBackground: the command ends and leaves its rank in the background, which still prints
// when nobody waits for the command any more.
func TestBackground(t *testing.T) {
	t.Setenv(scriptEnv, "garbage-run")
	shell := fmt.Sprintf("%s=0 %s & sleep 0.1", rankEnv, os.Args[0])
	b, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}, Listen: Loopback}, DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, c := openWorkload(t, b, ep.Dispatch), defaultOf(t, b, ep.Dispatch)
	if err := b.proc.wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(t.Context(), c.With("tile_tokens", "13")); err != nil { // it prints
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || b.Restarts() > 0 {
		t.Errorf("%v, %d restarts", err, b.Restarts())
	}
}

// once reports that a script is about an event, for the first time.
func once(script, event string) bool {
	mark := os.Getenv(markEnv)
	if !strings.HasSuffix(script, event) {
		return false
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
	f.Close()
	return err == nil
}

// misbehave hangs or crashes, as a script's first word says.
func misbehave(script string) {
	if strings.HasPrefix(script, "crash") {
		os.Exit(3)
	}
	time.Sleep(time.Hour)
}
