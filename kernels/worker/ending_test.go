package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

// soon is long enough for a busy host to kill a process.
const soon = 2 * time.Minute

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
				t.Error("the process still runs")
			}
		})
	}
}

// TestLostSession: after a hang or crash in open or close, the next session has a new process.
func TestLostSession(t *testing.T) {
	for _, script := range []string{"hang-open", "crash-open", "hang-close", "crash-close"} {
		t.Run(script, func(t *testing.T) {
			setMark(t)
			b := openScripted(t, script)
			if script == "hang-open" { // only for the request that hangs
				b.limits.Open = 2 * time.Second
			}
			var said []string
			b.command.Said = func(line string) { said = append(said, line) }
			w := drawn(t, smallProblem(ep.Dispatch), "uniform")
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

// TestDiedBetween: if the worker dies between two requests, no candidate is blamed.
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

// TestBackground: after a command has ended, a rank that it left in the background stays usable and may print.
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
	if err := s.Prepare(t.Context(), c.With("tile_tokens", "13")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || b.Restarts() > 0 {
		t.Errorf("%v, %d restarts", err, b.Restarts())
	}
}

// TestFreedNumber: after the worker process has ended, Close kills no process group, because the worker's number may
// belong to another group by then.
func TestFreedNumber(t *testing.T) {
	for _, launched := range []bool{false, true} {
		var b *Backend
		if launched {
			b, _ = openLaunched(t, "honest", "idle")
		} else {
			b = openScripted(t, "honest")
		}
		p := b.proc
		p.kill()
		<-p.done
		other := exec.Command("sleep", "600")
		other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		p.cmd.Process = other.Process
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		_ = other.Process.Signal(syscall.SIGTERM)
		_ = other.Wait()
		if how := other.ProcessState.Sys().(syscall.WaitStatus).Signal(); how != syscall.SIGTERM {
			t.Errorf("launched %v: the process that has the number now was ended by %v", launched, how)
		}
	}
}

// TestLeftInGroup: Close ends all processes in the process group of a worker on pipes.
func TestLeftInGroup(t *testing.T) {
	t.Setenv(scriptEnv, "honest")
	file := filepath.Join(t.TempDir(), "child")
	shell := fmt.Sprintf("sleep 600 > /dev/null 2>&1 & echo $! > %s; exec %s", file, os.Args[0])
	b, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}}, DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	text := testfile.Read(t, file)
	within(t, "the end of child "+string(text), func() {
		for { // an ended process has an empty command line
			if line, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/cmdline"); len(line) == 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestLeave: a worker may clean up after its connection has ended.
func TestLeave(t *testing.T) {
	for _, listen := range []string{"", Loopback} {
		t.Setenv(scriptEnv, "honest")
		file := filepath.Join(t.TempDir(), "clean")
		shell := fmt.Sprintf("%s; exec >&-; sleep 0.3; echo > %s", os.Args[0], file)
		if listen != "" {
			shell = rankEnv + "=0 " + shell
		}
		b, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}, Listen: listen}, DefaultLimits(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("listen %q: killed before it ended: %v", listen, err)
		}
	}
}

// TestNoStart: if a worker does not answer hello or is refused, its file for rows is removed.
func TestNoStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	refused := `read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; sleep 600`
	for shell, want := range map[string]string{"sleep 600": "context deadline exceeded", refused: "speaks protocol 0"} {
		limit := time.Second
		if shell == refused {
			limit = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := Open(ctx, Command{Argv: []string{"sh", "-c", shell}}, DefaultLimits(), nil)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", shell, left, err)
		}
	}
}

// once reports whether `script` ends with `event` and no earlier call has reported this. A file marks the first call,
// because later calls may be made by another process.
func once(script, event string) bool {
	mark := os.Getenv(markEnv)
	if !strings.HasSuffix(script, event) {
		return false
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
	f.Close()
	return err == nil
}

func misbehave(script string) {
	if strings.HasPrefix(script, "crash") {
		os.Exit(3)
	}
	time.Sleep(time.Hour)
}
