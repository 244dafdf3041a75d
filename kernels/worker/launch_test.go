package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
)

// rankEnv holds the rank that the test binary plays. roleEnv says what this rank does: idle, fail or die. markEnv names
// a file that marks a hang.
const (
	rankEnv = "EPBENCH_TEST_RANK"
	roleEnv = "EPBENCH_TEST_ROLE"
	markEnv = "EPBENCH_TEST_MARK"
)

func setMark(t *testing.T) string {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "hangs")
	t.Setenv(markEnv, mark)
	return mark
}

// awaitFile waits for a file and removes it.
func awaitFile(name string) {
	for range 6000 {
		if os.Remove(name) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serveRank plays one rank. Rank 0 serves the CPU backend.
func serveRank(rank, role string) error {
	c, in, err := connectAs(rank, os.Getenv(tokenEnv))
	if err != nil {
		return err
	}
	if rank == "0" {
		b, err := cpu.Open()
		if err != nil {
			return err
		}
		fmt.Println("NCCL version 2.27: printed where messages might be expected")
		return Serve(context.Background(), "launched 1", &scripted{b, os.Getenv(scriptEnv)}, in, c)
	}
	say := func(method string, params any) {
		b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
		fmt.Fprintf(c, "%s\n", b)
	}
	switch role {
	case "fail":
		go func() {
			awaitFile(os.Getenv(markEnv))
			say(notifyFailed, Trouble{Status: ep.LaunchFailed, Reason: "no kernel image" + strings.Repeat(" of what the compiler printed", 10_000)})
		}()
	case "die":
		go func() {
			awaitFile(os.Getenv(markEnv))
			os.Exit(1)
		}()
	}
	_, _ = in.ReadByte()
	return nil
}

// connectAs connects as one of two ranks, with the token in clear.
func connectAs(rank, token string) (net.Conn, *bufio.Reader, error) {
	c, err := net.Dial("tcp", os.Getenv(addressEnv))
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(c, `{"token":%q,"rank":%s,"ranks":2,"host":"here","pid":%d,"meet":"there"}`+"\n", token, rank, os.Getpid())
	in := bufio.NewReader(c)
	var a Admission
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return c, in, err
}

// openLaunched starts two ranks of this test binary.
func openLaunched(t *testing.T, script, role string) (*Backend, *heard) {
	t.Helper()
	t.Setenv(scriptEnv, script)
	t.Setenv(roleEnv, role)
	limits := DefaultLimits()
	limits.Hello, limits.Round = time.Minute, time.Minute
	shell := fmt.Sprintf("%s=1 %s & %s=0 exec %[2]s", rankEnv, os.Args[0], rankEnv)
	said := &heard{}
	b, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}, Listen: Loopback, Said: said.line}, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, said
}

func (g *group) waitFor(t *testing.T, ranks int) {
	t.Helper()
	for range 6000 {
		g.mu.Lock()
		n := len(g.members)
		g.mu.Unlock()
		if n == ranks {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("fewer than %d ranks connected", ranks)
}

func TestLaunched(t *testing.T) {
	b, said := openLaunched(t, "honest", "idle")
	s := openWorkload(t, b, ep.Dispatch)
	c := defaultOf(t, b, ep.Dispatch)
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 3, Fold: 1}); err != nil {
		t.Error(err)
	}
	b.proc.group.waitFor(t, 2)
	mark := b.proc.group.mark
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if text := said.text(); !strings.Contains(text, "NCCL version") {
		t.Errorf("standard output is not shown: %q", text)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// TestGivenToken: if the user chose the token, the end of a group must not kill other processes that have this token.
func TestGivenToken(t *testing.T) {
	t.Setenv(tokenEnv, "a secret of all hosts")
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	}()
	b, _ := openLaunched(t, "honest", "idle")
	g := b.proc.group
	g.waitFor(t, 2)
	if g.token != "a secret of all hosts" || len(marked(g.mark)) == 0 {
		t.Errorf("token %q, processes with the mark %q: %v", g.token, g.mark, marked(g.mark))
	}
	b.proc.kill()
	<-b.proc.done
	if left := marked(g.mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if !slices.Contains(marked(tokenEnv+"="+g.token), bystander.Process.Pid) {
		t.Error("a process outside the group was killed because it has the same token")
	}
}

// TestLaunchedTrouble: a failure names its rank. All processes of the failed group end, and a new group starts.
func TestLaunchedTrouble(t *testing.T) {
	for _, c := range []struct {
		script, role string
		status       ep.Status
		reason       string
	}{
		{"hang-run", "die", ep.Crash, "rank 1 of 2 (host here, pid "},
		{"hang-run", "fail", ep.LaunchFailed, "no kernel image"},
		{"hang-run", "idle", ep.Hang, "rank 1 of 2"},
		{"crash-run", "idle", ep.Crash, "rank 0 of 2 (host here, pid "},
	} {
		t.Run(c.script+" "+c.role, func(t *testing.T) {
			setMark(t)
			b, _ := openLaunched(t, c.script, c.role)
			if c.status == ep.Hang {
				b.limits.Round = silence + time.Second // longer than silence
			}
			b.proc.group.waitFor(t, 2)
			s := openWorkload(t, b, ep.Dispatch)
			good := defaultOf(t, b, ep.Dispatch)
			mark := b.proc.group.mark
			_, err := s.Run(t.Context(), good.With("tile_tokens", "13"), kernels.RunSpec{Rounds: 1, Fold: 1})
			var f *kernels.Failure
			if !errors.As(err, &f) || f.Status != c.status || !strings.Contains(f.Reason, c.reason) {
				t.Fatalf("got %v, want %s with %q", err, c.status, c.reason)
			}
			if left := marked(mark); len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
			os.Setenv(roleEnv, "idle") // t.Setenv restores it
			if b.proc.group.mark == mark {
				t.Error("a second group has the token of the first")
			}
		})
	}
}

func TestLaunchedRefusals(t *testing.T) {
	b, _ := openLaunched(t, "honest", "idle")
	g := b.proc.group
	g.waitFor(t, 2)
	t.Setenv(addressEnv, g.listener.Addr().String())
	for _, c := range []struct{ rank, token, want string }{
		{"1", "guess", "token"}, {"1", g.token, "connected already"}, {"7", g.token, "rank: 7 of 2"},
	} {
		if _, _, err := connectAs(c.rank, c.token); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("rank %s: %v, want %q", c.rank, err, c.want)
		}
	}
	limits := DefaultLimits()
	for _, c := range []struct {
		shell, want string
		hello       time.Duration
	}{
		{"echo no such module >&2; exit 3", "no such module", time.Minute},
		{"sleep 600", "did not connect", 300 * time.Millisecond},
	} {
		limits.Hello = c.hello
		_, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", c.shell}, Listen: Loopback}, limits, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.shell, err, c.want)
		}
	}
}
