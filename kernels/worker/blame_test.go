package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

func rankOf3(rank int) *member {
	return &member{Greeting: Greeting{Rank: rank, Ranks: 3, Host: "h"}}
}

// everyOrder calls `try` with the ends in each possible order.
func everyOrder(before, left []end, try func([]end)) {
	if len(left) == 0 {
		try(before)
	}
	for i, e := range left {
		rest := append(append([]end{}, left[:i]...), left[i+1:]...)
		everyOrder(append(before[:len(before):len(before)], e), rest, try)
	}
}

// TestBlamed: in whatever order epbench hears of failures and disconnections, it names the rank that caused them.
func TestBlamed(t *testing.T) {
	report := func(rank int, at float64, reason string) end {
		return newEnd(rankOf3(rank), Trouble{Status: ep.LaunchFailed, Reason: reason, At: at})
	}
	follows := func(rank int) end {
		return newEnd(rankOf3(rank), Trouble{Status: ep.Crash, Reason: "another rank is gone", Follows: true})
	}
	gone := func(rank int) end { return newLoss(rankOf3(rank)) }
	for _, c := range []struct {
		name, want string
		ends       []end
	}{
		{"one raises, two follow", "rank 1 of 3 (host h, pid 0): CUDA error",
			[]end{report(1, 5, "CUDA error"), gone(1), follows(0), gone(0), follows(2), gone(2)}},
		{"one is killed, two follow", "rank 1 of 3 (host h, pid 0): is gone",
			[]end{gone(1), follows(0), gone(0), follows(2), gone(2)}},
		{"one fails, two see it in their libraries", "rank 2 of 3 (host h, pid 0): CUDA error",
			[]end{report(2, 5, "CUDA error"), report(0, 5.25, "NCCL error"), report(1, 5.5, "NCCL error"), gone(0), gone(1)}},
		{"one is killed, one sees it", "rank 0 of 3 (host h, pid 0): NCCL error; rank 2 of 3 (host h, pid 0): is gone",
			[]end{report(0, 5, "NCCL error"), gone(0), gone(2), follows(1)}},
		{"one fails, then waits for the next request", "rank 1 of 3 (host h, pid 0): too few registers",
			[]end{report(1, 5, "too few registers"), follows(1), gone(1), follows(0), gone(0)}},
		{"a connection broke", "rank 0 of 3 (host h, pid 0): another rank is gone", []end{follows(0), gone(0)}},
	} {
		everyOrder(nil, c.ends, func(ends []end) {
			if got := blamed(ends); got == nil || got.Reason != c.want {
				t.Errorf("%s: %+v in the order %v, want %q", c.name, got, ends, c.want)
			}
		})
	}
	if got := blamed(nil); got != nil {
		t.Errorf("nothing happened: %+v", got)
	}
}

// TestClocksOfHosts: of two failures on different hosts, epbench names the one it heard of first.
func TestClocksOfHosts(t *testing.T) {
	a, b := rankOf3(0), rankOf3(1)
	b.Host = "other"
	got := blamed([]end{newEnd(a, Trouble{Reason: "first", At: 9}), newEnd(b, Trouble{Reason: "second", At: 5})})
	if !strings.HasSuffix(got.Reason, ": first") {
		t.Errorf("%+v", got)
	}
}

// TestRankZeroLeavesFirst: epbench hears first that rank 0 is gone, and reads later that rank 1 failed. It names rank
// 1, whether rank 0 said why it ends or not.
func TestRankZeroLeavesFirst(t *testing.T) {
	for _, says := range []bool{true, false} {
		g, _ := fakeGroup(t)
		t.Setenv(addressEnv, g.listener.Addr().String())
		zero, _, err := connectAs("0", g.token)
		if err != nil {
			t.Fatal(err)
		}
		one, _, err := connectAs("1", g.token)
		if err != nil {
			t.Fatal(err)
		}
		zero.Close()
		if says {
			g.fail(g.first(), Trouble{Status: ep.Crash, Reason: "another rank is gone", Follows: true}, time.Hour)
		}
		want := "rank 1 of 2 (host here, pid "
		go func() {
			g.untilGone(0)
			sayFailed(one, Trouble{Status: ep.LaunchFailed, Reason: "no kernel image"})
			one.Close()
		}()
		g.rankZeroGone()
		g.close()
		if got := g.firstTrouble(); got == nil || got.Status != ep.LaunchFailed || !strings.HasPrefix(got.Reason, want) {
			t.Errorf("rank 0 says why: %v: %+v, want %s...", says, got, want)
		}
	}
}

// TestRankZeroFollows: rank 0 says that it follows another rank and ends, and its request fails. epbench reads rank 1's
// failure afterwards, and names rank 1. The test plays both ranks.
func TestRankZeroFollows(t *testing.T) {
	const token = "chosen by the test"
	t.Setenv(tokenEnv, token)
	file := filepath.Join(t.TempDir(), "address")
	shell := fmt.Sprintf("echo $%s > %s.new; mv %[2]s.new %[2]s; exec sleep 600", addressEnv, file)
	ready := make(chan *process)
	go func() {
		p, err := start(t.Context(), Command{Argv: []string{"sh", "-c", shell}, Listen: Loopback}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		ready <- p
	}()
	t.Setenv(addressEnv, strings.TrimSpace(awaitText(t, file)))
	zero, _, err := connectAs("0", token)
	if err != nil {
		t.Fatal(err)
	}
	one, _, err := connectAs("1", token)
	if err != nil {
		t.Fatal(err)
	}
	p := <-ready
	go func() {
		sayFailed(zero, Trouble{Status: ep.Crash, Reason: "another rank is gone", Follows: true})
		zero.Close()
		p.group.untilGone(0)
		sayFailed(one, Trouble{Status: ep.LaunchFailed, Reason: "no kernel image"})
		one.Close()
	}()
	err = explain(t.Context(), p, methodRun, p.call(t.Context(), methodRun, nil, nil, time.Minute))
	want := "run: rank 1 of 2 (host here, pid "
	if !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "no kernel image") {
		t.Errorf("%v, want %s...", err, want)
	}
}

// awaitText waits until a file exists, and returns its text.
func awaitText(t *testing.T, file string) string {
	for range 6000 {
		if b, err := os.ReadFile(file); err == nil {
			return string(b)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %s", file)
	return ""
}

// untilGone waits until epbench knows that a rank is gone.
func (g *group) untilGone(rank int) {
	for known := false; !known; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		for _, e := range g.ends {
			known = known || e.gone && e.Rank == rank
		}
		g.mu.Unlock()
	}
}

func sayFailed(c net.Conn, t Trouble) {
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": notifyFailed, "params": t})
	fmt.Fprintf(c, "%s\n", b)
}

// TestFailureOfLine: a rank of a Go worker says when it failed. After the connection to another rank has ended, it says
// so once, and no longer reports failures.
func TestFailureOfLine(t *testing.T) {
	at := listenAt(t, Loopback)
	zero, one := &Line{Place: Place{0, 2, 0}, Token: "secret"}, &Line{Place: Place{1, 2, 0}, Token: "secret"}
	visited := make(chan io.ReadWriter, 1)
	go func() {
		link, err := one.Visit(at.Addr().String())
		if err != nil {
			t.Error(err)
		}
		visited <- link
	}()
	links, err := zero.Gather(at.(*net.TCPListener), longEnough)
	if err != nil {
		t.Fatal(err)
	}
	toZero, toOne := <-visited, links[0]
	toZero.(peer).Writer.(net.Conn).Close()
	for want, link := range map[string]io.ReadWriter{"rank 0 is gone": toZero, "rank 1 is gone": toOne} {
		got := said(t, link.(peer).line, func(l *Line) {
			l.Failed(ep.LaunchFailed, "no kernel image")
			_, _ = link.Read(make([]byte, 1))
			_, _ = link.Write([]byte("answer"))
			l.Failed(ep.LaunchFailed, "EOF")
		})
		if len(got) != 2 || got[0].Follows || got[0].At < 1 || !got[1].Follows || got[1].Reason != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// said returns what a rank tells epbench during `act`.
func said(t *testing.T, l *Line, act func(*Line)) (out []Trouble) {
	epbench, rank := net.Pipe()
	l.conn = rank
	go func() {
		act(l)
		rank.Close()
	}()
	for lines := bufio.NewScanner(epbench); lines.Scan(); {
		var n struct{ Params Trouble }
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			t.Fatal(err)
		}
		out = append(out, n.Params)
	}
	return out
}
