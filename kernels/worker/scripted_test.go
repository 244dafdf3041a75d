package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// scriptEnv is an environment variable. Its value says how the test binary misbehaves when it runs as a worker. Most
// scripts misbehave only for candidates with tile_tokens=13.
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
	os.Exit(withCompiledPython(m.Run))
}

// withCompiledPython calls `run`. The processes that `run` starts share compiled Python files, in a folder outside the
// repository.
// Python would otherwise compile the harness for each rank, which takes as long as the rank's other work.
func withCompiledPython(run func() int) int {
	dir, err := os.MkdirTemp("", "epbench-python")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("PYTHONPYCACHEPREFIX", dir)
	os.Unsetenv("PYTHONDONTWRITEBYTECODE")
	return run()
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

// forewarned refuses configs that Precompile did not announce.
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

// restarted reports whether an earlier process has run a candidate.
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

func bad(c ep.Config) bool { return c.Int("tile_tokens") == 13 }

func (s *scriptedSession) Prepare(ctx context.Context, c ep.Config) error {
	switch {
	case bad(c) && s.script == "hang-prepare":
		select {}
	case bad(c) && s.script == "garbage-run": // this line comes before the answer to prepare
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
			_ = os.WriteFile(mark, nil, 0o600) // tells the test, or another rank, that this run hangs
		}
		time.Sleep(time.Hour)
	case "late-run":
		time.Sleep(30 * time.Second)
	case "orphan-run": // keeps the pipes open
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
		return kernels.Comparison{Rows: 1000}, nil
	}
	return s.Session.Verify(ctx, c)
}

// Probe returns a row; the script lie-verify flips a sign in it.
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

func smallProblem(op ep.Op) ep.Problem {
	return ep.Problem{Op: op, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 256, Experts: 8, TopK: 2,
		Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16}
}

func openWorkload(t *testing.T, b kernels.Backend, op ep.Op) kernels.Session {
	t.Helper()
	return openProblem(t, b, smallProblem(op), "uniform")
}

func openProblem(t *testing.T, b kernels.Backend, p ep.Problem, routing string) kernels.Session {
	t.Helper()
	s, err := b.Open(t.Context(), drawn(t, p, routing))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawn(t *testing.T, p ep.Problem, routing string) *workloads.Workload {
	t.Helper()
	w, err := workloads.Draw(routing, p, 7)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func defaultOf(t *testing.T, b kernels.Backend, op ep.Op) ep.Config {
	t.Helper()
	return kernels.Of(b.Kernels(), op)[0].DefaultConfig(b.Machine(), smallProblem(op))
}
