package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// The test binary runs itself as a worker with the CPU backend. The environment variable scriptEnv
// names one way to misbehave. The worker misbehaves only if the candidate has tile_tokens=13.
const scriptEnv = "EPBENCH_TEST_WORKER"

func TestMain(m *testing.M) {
	if rank := os.Getenv(rankEnv); rank != "" {
		if err := serveRank(rank, os.Getenv(roleEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if script := os.Getenv(scriptEnv); script != "" {
		if err := serveScript(script); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveScript(script string) error {
	b, err := cpu.Open()
	if err != nil {
		return err
	}
	if script == "garbage-hello" {
		fmt.Println("Segmentation fault (core dumped)")
	}
	var backend kernels.Backend = &scripted{b, script}
	if script == "forewarned" {
		backend = &forewarned{backend, map[string]bool{}}
	}
	return Serve(context.Background(), "scripted 1", backend, os.Stdin, os.Stdout)
}

// forewarned is a backend that refuses to prepare a config unless Precompile was called with it.
type forewarned struct {
	kernels.Backend
	told map[string]bool
}

func (b *forewarned) Precompile(p ep.Problem, configs []ep.Config) {
	for _, c := range configs {
		b.told[p.Key()+c.Key()] = true
	}
}

func (b *forewarned) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	s, err := b.Backend.Open(ctx, w)
	return &forewarnedSession{s, b, w.Problem.Key()}, err
}

type forewarnedSession struct {
	kernels.Session
	of      *forewarned
	problem string
}

func (s *forewarnedSession) Prepare(ctx context.Context, c ep.Config) error {
	if !s.of.told[s.problem+c.Key()] {
		return kernels.Failf(ep.CompileFailed, "never heard of")
	}
	return s.Session.Prepare(ctx, c)
}

// scripted is a backend that misbehaves as its script says.
type scripted struct {
	kernels.Backend
	script string
}

func (b *scripted) ABI() ep.ABI {
	if b.script == "other-build" && restarted() {
		return "another"
	}
	return "scripted"
}

func (b *scripted) Machine() ep.Machine {
	m := b.Backend.Machine()
	if b.script == "other-machine" && restarted() {
		m.SMs++
	}
	return m
}

func (b *scripted) Kernels() []kernels.Kernel {
	all := b.Backend.Kernels()
	if b.script == "other-kernels" && restarted() {
		all[0].Params = all[0].Params[1:]
	}
	return all
}

// restarted reports whether an earlier process of this script has run a candidate.
func restarted() bool {
	_, err := os.Stat(os.Getenv(markEnv))
	return err == nil
}

func (b *scripted) Empty(ctx context.Context) (map[string]float64, error) {
	return b.Backend.(kernels.Clocker).Empty(ctx)
}

func (b *scripted) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	if once(b.script, "-open") {
		misbehave(b.script)
	}
	s, err := b.Backend.Open(ctx, w)
	return &scriptedSession{s, b.script}, err
}

type scriptedSession struct {
	kernels.Session
	script string
}

func (s *scriptedSession) Close() error {
	if once(s.script, "-close") {
		misbehave(s.script)
	}
	return s.Session.Close()
}

// bad reports whether a script misbehaves for a config.
func bad(c ep.Config) bool { return c.Int("tile_tokens") == 13 }

func (s *scriptedSession) Prepare(ctx context.Context, c ep.Config) error {
	switch {
	case bad(c) && s.script == "hang-prepare":
		select {}
	case bad(c) && s.script == "garbage-run": // epbench reads this line before the answer to prepare
		fmt.Println("%PDF-1.4 not a message")
	}
	return s.Session.Prepare(ctx, c)
}

func (s *scriptedSession) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	r, err := s.Session.Run(ctx, c, spec)
	if !bad(c) || err != nil {
		return r, err
	}
	switch s.script {
	case "hang-run":
		if mark := os.Getenv(markEnv); mark != "" {
			_ = os.WriteFile(mark, nil, 0o600) // on an error, the test that waits for the file fails
		}
		time.Sleep(time.Hour)
	case "late-run":
		time.Sleep(30 * time.Second)
	case "orphan-run": // a child in a session of its own keeps the pipes open
		child := exec.Command("sleep", "60")
		child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
		os.Exit(4)
	case "other-build", "other-machine", "other-kernels", "same":
		_ = os.WriteFile(os.Getenv(markEnv), nil, 0o600)
		os.Exit(139)
	case "crash-run":
		fmt.Fprintln(os.Stderr, "CUDA error 700: an illegal memory access was encountered")
		os.Exit(139)
	case "garbage-run":
		time.Sleep(time.Hour)
	case "lie-time":
		r.Seconds[0][0] = 1e9
	case "lie-zero":
		r.Seconds[0][0] = 0
	case "lie-rounds":
		r.Seconds = r.Seconds[:0]
	case "fail-hang":
		return r, kernels.Failf(ep.Hang, "rank 1 waited for rank 0, expert 3")
	}
	return r, nil
}

func (s *scriptedSession) Verify(ctx context.Context, c ep.Config) (kernels.Comparison, error) {
	if bad(c) && s.script == "lie-verify" {
		return kernels.Comparison{Rows: 1000}, nil // reports no wrong rows without looking
	}
	return s.Session.Verify(ctx, c)
}

// Probe returns a row of the CPU session. The script lie-verify flips the sign of one value in it.
func (s *scriptedSession) Probe(rank, token, k int) ([]uint16, error) {
	row, err := s.Session.(Prober).Probe(rank, token, k)
	if s.script == "lie-verify" && err == nil {
		row = slices.Clone(row)
		row[len(row)/2] ^= 0x8000
	}
	return row, err
}

func openScripted(t *testing.T, script string) *Backend {
	t.Helper()
	t.Setenv(scriptEnv, script)
	limits := DefaultLimits()
	limits.Round = time.Minute
	b, err := Open(t.Context(), Command{Argv: []string{os.Args[0]}}, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func openWorkload(t *testing.T, b kernels.Backend, op ep.Op) kernels.Session {
	t.Helper()
	return openProblem(t, b, ep.Problem{Op: op, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 256, Experts: 8, TopK: 2,
		Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16}, "uniform")
}

func openProblem(t *testing.T, b kernels.Backend, p ep.Problem, routing string) kernels.Session {
	t.Helper()
	s, err := b.Open(t.Context(), drawn(t, p, routing))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawn returns a problem's workload under a routing.
func drawn(t *testing.T, p ep.Problem, routing string) *workloads.Workload {
	t.Helper()
	d, err := workloads.Parse(routing)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.New(d, p, 7)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func defaultOf(t *testing.T, b kernels.Backend, op ep.Op) ep.Config {
	t.Helper()
	return kernels.Of(b.Kernels(), op)[0].DefaultConfig(b.Machine(), ep.Problem{Op: op, Ranks: 2, Hidden: 256, Experts: 8, TopK: 2, Tokens: 4, MaxTokens: 4})
}

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

// TestMisbehaviour runs each script. The bad candidate must end with the right status and reason, must
// not run again, and the session must stay usable.
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
		{"lie-time", ep.Unstable, "were returned after", 0},
		{"lie-zero", ep.Unstable, "took 0 s", 0},
		{"lie-rounds", ep.Unstable, "0 rounds of fold 1 instead of 1", 0},
	} {
		t.Run(c.script, func(t *testing.T) {
			b := openScripted(t, c.script)
			s := openWorkload(t, b, ep.Dispatch)
			good := defaultOf(t, b, ep.Dispatch)
			long := b.limits
			switch { // a short limit only for the request that hangs
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

func TestRefusals(t *testing.T) {
	if _, err := Open(t.Context(), Command{Argv: []string{"/nonexistent/worker"}}, DefaultLimits(), nil); err == nil {
		t.Error("a command that does not exist was started")
	}
	t.Setenv(scriptEnv, "honest")
	if _, err := Open(t.Context(), Command{Argv: []string{os.Args[0]}}, DefaultLimits(), Built("other", nil)); err == nil || !strings.Contains(err.Error(), "make cuda") {
		t.Errorf("other sources: %v", err)
	}
}

// TestLocalDeclarations: if a worker has the same build as this program, this program's declaration of
// a kernel replaces the worker's. A kernel that the worker does not declare is left out.
func TestLocalDeclarations(t *testing.T) {
	declares := openScripted(t, "honest")
	own := declares.Kernels()[:1]
	own[0].Doc = "declared here"
	known := Built(declares.ABI(), append(own, kernels.Kernel{Name: own[0].Name, Op: ep.Activation}))
	b, err := Open(t.Context(), Command{Argv: []string{os.Args[0]}}, DefaultLimits(), known)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := b.Kernels(); len(got) != 1 || got[0].Op != own[0].Op || got[0].Doc != own[0].Doc {
		t.Errorf("%+v", got)
	}
}

// TestKnownRules: a config of a known kernel is legal if both this program's check and the
// worker's rules allow it.
func TestKnownRules(t *testing.T) {
	refuses := func(p string) func(ep.Machine, ep.Problem, ep.Config) error {
		return func(_ ep.Machine, _ ep.Problem, c ep.Config) error {
			if c.Str("p") == p {
				return fmt.Errorf("p: %s, refused here", p)
			}
			return nil
		}
	}
	w := Welcome{ABI: "mine", Kernels: []KernelDecl{{Name: "dispatch", Op: ep.Dispatch, Rules: []Rule{{Expr: "problem.ranks == 2", Reason: "two were launched"}},
		Params: []kernels.Param{{Name: "p", Values: []ep.Value{"1"}, Default: "1"}}}}}
	all, err := served(w, Built("mine", []kernels.Kernel{{Name: "dispatch", Op: ep.Dispatch, Check: refuses("3")}}))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	for _, c := range []struct {
		ranks int
		p     ep.Value
		want  string // "" if it is legal
	}{{2, "1", ""}, {4, "1", "two were launched"}, {2, "3", "refused here"}} {
		err := all[0].Check(ep.Machine{}, ep.Problem{Ranks: c.ranks}, ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"p": c.p}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestStrayLine shows that a library's output on standard output is printed and not parsed.
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

// TestAnotherWorker shows that a restarted worker is refused if it reports another machine, another
// build or other kernels than before the crash. Times of both workers would be mixed.
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

// TestKilledWorker kills a worker with SIGKILL in the middle of a round.
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

// TestAhead shows that the worker is told the configs to compile before they are prepared. Only workers
// that ask for it are told.
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
		t.Error("a backend without Precompile asks to be told configs")
	}
}
