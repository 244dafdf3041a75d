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
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
)

// rankEnv gives the number of the rank that the test binary plays. roleEnv gives the role of ranks
// other than 0: idle, fail or die. markEnv names a file that rank 0 makes when its run hangs.
const (
	rankEnv = "EPBENCH_TEST_RANK"
	roleEnv = "EPBENCH_TEST_ROLE"
	markEnv = "EPBENCH_TEST_MARK"
)

// setMark sets markEnv.
func setMark(t *testing.T) string {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "hangs")
	t.Setenv(markEnv, mark)
	return mark
}

// awaitFile waits until a file exists, at most a minute. It removes the file, so that the next group
// does not find it.
func awaitFile(name string) {
	for range 6000 {
		if os.Remove(name) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serveRank plays one rank. Rank 0 serves the CPU backend; the other ranks do what their role says.
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
	_, _ = in.ReadByte() // until epbench closes the connection
	return nil
}

// connectAs connects to epbench as one of two ranks and sends the token itself instead of a proof.
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

// openLaunched starts two ranks. Each is a process of this test binary.
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

// waitFor waits until this number of ranks has connected.
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

// TestGivenToken uses a token that the user chose, as for ranks that the command does not start. Other
// processes may have the same token in their environment. Ending the group must not kill them.
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

// TestLaunchedTrouble lets a candidate hang or crash on rank 0, while rank 1 ends, fails or is silent.
// The failure names the rank, and a new group replaces the old one.
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
				b.limits.Round = 4 * time.Second // longer than silence
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

// fakeGroup returns a group without a launched command. The channel ended is closed when the group
// would kill the command.
func fakeGroup(t *testing.T) (g *group, ended chan struct{}) {
	t.Helper()
	l, address, err := listen(Loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(addressEnv, address)
	ended = make(chan struct{})
	g = newGroup(l, sync.OnceFunc(func() { close(ended) }))
	t.Cleanup(g.close)
	go g.gate.accept(l, g.greet)
	return g, ended
}

// TestClosedGroup closes a group whose rank 0 has not connected. The other ranks must get an error,
// and no rank can be added afterwards.
func TestClosedGroup(t *testing.T) {
	g, _ := fakeGroup(t)
	greeted := make(chan error, 1)
	go func() {
		_, _, err := connectAs("1", g.token)
		greeted <- err
	}()
	g.waitFor(t, 1)
	waited := make(chan bool, 1)
	go func() { waited <- g.waitForRankZero() }()
	g.close()
	if <-waited {
		t.Error("waitForRankZero reports that rank 0 has connected")
	}
	if err := <-greeted; err == nil {
		t.Error("rank 1 was admitted without rank 0")
	}
	if err := g.add(&member{Greeting: Greeting{Rank: 0, Ranks: 2}}); err == nil {
		t.Error("a rank was added to a closed group: nobody closes its connection")
	}
}

// TestCalm shows that an answer of rank 0 clears the failure that another rank reported, but not the
// end of another rank's process.
func TestCalm(t *testing.T) {
	g, ended := fakeGroup(t)
	m := &member{Greeting: Greeting{Rank: 1, Ranks: 2}}
	g.fail(m, Trouble{Status: ep.Illegal, Reason: "sms: 3"}, time.Hour)
	g.clearTrouble(0)
	if g.firstTrouble() != nil {
		t.Errorf("the failure is not cleared: %+v", g.firstTrouble())
	}
	g.fail(m, Trouble{Status: ep.LaunchFailed, Reason: "no kernel image"}, time.Hour)
	g.rankGone(m)
	g.clearTrouble(0)
	<-ended
	if w := g.firstTrouble(); w == nil || w.Status != ep.LaunchFailed {
		t.Errorf("a rank that is gone: %+v, want the failure that it reported", w)
	}
}

// TestLateTrouble shows that a reported failure is ignored if rank 0 has already answered its
// request. A failure of a later request is recorded. A failure without a request number is recorded
// too, because older workers send no number.
func TestLateTrouble(t *testing.T) {
	for id, counts := range map[int64]bool{4: false, 5: false, 6: true, 0: true} {
		g, _ := fakeGroup(t)
		g.clearTrouble(5)
		g.fail(&member{Greeting: Greeting{Rank: 1, Ranks: 2}}, Trouble{ID: id, Status: ep.Illegal, Reason: "sms: 3"}, time.Hour)
		if got := g.firstTrouble() != nil; got != counts {
			t.Errorf("request %d after the answer to 5: trouble %v, want %v", id, got, counts)
		}
	}
}

// TestReasonAfterLoss receives the end of one rank before the failure of another. Either may be the
// cause, so the reason names both, and no answer clears them.
func TestReasonAfterLoss(t *testing.T) {
	g, ended := fakeGroup(t)
	ofRank := func(rank int) *member { return &member{Greeting: Greeting{Rank: rank, Ranks: 3}} }
	g.rankGone(ofRank(2))
	g.fail(ofRank(1), Trouble{Status: ep.LaunchFailed, Reason: "no kernel image"}, time.Hour)
	g.fail(ofRank(2), Trouble{Status: ep.Illegal, Reason: "later"}, time.Hour)
	g.clearTrouble(0)
	<-ended
	if w, want := g.firstTrouble(), "rank 2 of 3 (host , pid 0): is gone; rank 1 of 3 (host , pid 0): no kernel image"; w == nil || w.Status != ep.LaunchFailed || w.Reason != want {
		t.Errorf("%+v, want %q", w, want)
	}
}

// TestLate shows which rank the reason of a hang names: a rank without heartbeats; otherwise the only
// rank that does not wait; otherwise the only rank in another step than the others.
func TestLate(t *testing.T) {
	ofRank := func(rank int, heard time.Duration, b Beat) *member {
		return &member{Greeting: Greeting{Rank: rank, Ranks: 3}, heard: time.Now().Add(-heard), beat: b}
	}
	wait := Beat{Doing: "barrier", Waiting: true}
	for _, c := range []struct {
		want    string
		members []*member
	}{
		{"no rank has connected", nil},
		{"rank 2 of 3 (host , pid 0) has been silent for 9s", []*member{ofRank(0, 0, wait), ofRank(1, 0, Beat{Doing: "run"}), ofRank(2, 9*time.Second, wait)}},
		{"rank 1 of 3 (host , pid 0) is in dispatch while the others wait", []*member{ofRank(0, 0, wait), ofRank(1, 0, Beat{Doing: "dispatch"}), ofRank(2, 0, wait)}},
		{"rank 1 of 3 (host , pid 0) is in sleep", []*member{ofRank(0, 0, Beat{Doing: "all_to_all"}), ofRank(1, 0, Beat{Doing: "sleep"}), ofRank(2, 0, Beat{Doing: "all_to_all"})}},
		{"", []*member{ofRank(0, 0, Beat{Doing: "run"}), ofRank(1, 0, Beat{Doing: "run"}), ofRank(2, 0, Beat{Doing: "run"})}},
		{"2 of 3 ranks have connected", []*member{ofRank(0, 0, wait), ofRank(1, 0, wait)}},
		{"", []*member{ofRank(0, 0, wait), ofRank(1, 0, wait), ofRank(2, 0, wait)}},
	} {
		g := &group{members: map[int]*member{}}
		for _, m := range c.members {
			g.members[m.Rank] = m
		}
		if got := g.lateRanks(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestTwoGroups runs two groups at the same time. Closing one must not end the other.
func TestTwoGroups(t *testing.T) {
	a, _ := openLaunched(t, "honest", "idle")
	b, _ := openLaunched(t, "honest", "idle")
	if a.proc.group.listener.Addr().String() == b.proc.group.listener.Addr().String() || a.proc.group.token == b.proc.group.token {
		t.Error("two groups share an address or a token")
	}
	a.Close()
	openWorkload(t, b, ep.Dispatch) // the second group still answers
}

func TestSplit(t *testing.T) {
	t.Setenv("EPBENCH_TEST_DIR", "/a b")
	for line, want := range map[string]string{
		`python3 'my worker.py' --name "x y" $EPBENCH_TEST_DIR/z`:                                                       "python3|my worker.py|--name|x y|/a|b/z",
		`a ~ ~/x ~root/x {1,2} [x] *.go {"k":1} x#y`:                                                                    `a|~|~/x|~root/x|{1,2}|[x]|*.go|{k:1}|x#y`,
		`a "x\"y" z\ w '\n' \~ \# "" b$EPBENCH_TEST_NONE "$EPBENCH_TEST_DIR" "${EPBENCH_TEST_DIR}z" $EPBENCH_TEST_NONE`: `a|x"y|z w|\n|~|#||b|/a b|/a bz`,
	} {
		if got, err := Split(line); err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v, want %s", line, got, err, want)
		}
	}
	for _, bad := range []string{"", "  ", `python3 'open`, `sh <(x)`, `a $((1+2))`, `a $(echo hi)`, "a `echo hi`", `a 2>err`, `a | b`, `a # c`, `# c`, `a;b`, `a;`, `a &`,
		`a && b`, `A=1 a b`, `a ${HOME:-x}`, `a $'x\ty'`, `a $1`, `a "$(b)"`, "a\nb", `! a`, `(a)`, `a !(b)`} {
		if got, err := Split(bad); err == nil {
			t.Errorf("%q is accepted as %q", bad, got)
		}
	}
	if _, err := Split(`a | b`); err == nil || !strings.Contains(err.Error(), "sh -c") {
		t.Errorf("%v does not mention sh -c", err)
	}
}
