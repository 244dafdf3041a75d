//go:build cuda

package drive

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// callsOf counts f's calls to an emulated driver, by name.
func callsOf(t *testing.T, f func() error) map[string]int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace")
	t.Setenv("EMUL_TRACE", file)
	err := f()
	os.Unsetenv("EMUL_TRACE")
	text, readErr := os.ReadFile(file)
	if err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
	count := map[string]int{}
	for name := range strings.Lines(string(text)) {
		count[strings.TrimSpace(name)]++
	}
	return count
}

// ready opens a session on two GPUs and runs the default config.
func ready(t *testing.T, op ep.Op) (*session, ep.Config) {
	t.Helper()
	if !onEmulator() {
		t.Skip("a real driver does not list its calls")
	}
	b, s := openSession(t, Options{Deadline: 20 * time.Second}, drillProblem(op, ep.Graph, 2))
	k := kernels.For(b.Kernels(), s.problem)[0]
	c := k.DefaultConfig(b.Machine(), s.problem)
	runConfig(t, b, s, k, c)
	return s, c
}

func verifyTimed(t *testing.T, s *session, c ep.Config) error {
	v, err := s.Verify(t.Context(), c)
	if took := v.Took; took.Filling <= 0 || took.Running <= 0 || took.Reading <= 0 || took.Comparing <= 0 {
		t.Errorf("a part of the verification's time is missing: %+v", took)
	}
	return err
}

// TestSessionCalls bounds the number of driver calls, which take 2 to 20 us each.
func TestSessionCalls(t *testing.T) {
	round := map[string]int{"cuMemsetD32Async": 2, "cuMemcpyDtoH": 2}
	capture := map[string]int{"cuStreamBeginCapture": 2, "cuGraphInstantiateWithFlags": 2, "cuGraphUpload": 2, "cuStreamSynchronize": 2}
	maps.Copy(capture, round)
	verify := map[string]int{"cuMemsetD8": 2 * 6, "cuMemcpyDtoD": 2, "cuMemcpyHtoD": 2 * 4, "cuCtxSynchronize": 2 * 2, "cuMemsetD32Async": 2,
		"cuMemcpyDtoHAsync": 2 * 5, "cuStreamSynchronize": 2 * 5}
	both := maps.Clone(verify)
	both["cuMemsetD8"], both["cuMemcpyDtoHAsync"], both["cuStreamSynchronize"] = 2*8, 2*6, 2*6
	for op, verify := range map[ep.Op]map[string]int{ep.Dispatch: verify, ep.Combine: both} {
		s, c := ready(t, op)
		run := func(fold int) func() error {
			return func() error {
				_, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: fold})
				return err
			}
		}
		for _, of := range []struct {
			name string
			f    func() error
			want map[string]int
		}{
			{"a verification", func() error { return verifyTimed(t, s, c) }, verify},
			{"a sample of a new fold", run(2), capture},
			{"one more sample", run(2), round},
			{"a sample after a verification", run(3), round},
		} {
			got := callsOf(t, of.f)
			if n := got["cuGraphLaunch"]; n > 2*(1+warmups) {
				t.Errorf("%s, %s: two ranks launch %d graphs, want at most %d", op, of.name, n, 2*(1+warmups))
			}
			delete(got, "cuGraphLaunch") // depends on the last sample's time
			if !maps.Equal(got, of.want) {
				t.Errorf("%s, %s: %v, want %v", op, of.name, got, of.want)
			}
		}
	}
}

// TestSessionCaptureRefused: if one rank's graph cannot be made, no rank keeps a graph.
func TestSessionCaptureRefused(t *testing.T) {
	s, c := ready(t, ep.Dispatch)
	k, err := s.prepared(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.program(k, arrangement{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	step := &p.native.steps[1][0]
	for i := range p.native.steps[1] {
		if p.native.steps[1][i].grid > 0 {
			step = &p.native.steps[1][i]
		}
	}
	grid := step.grid
	step.grid = 0
	_, err = s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 2})
	if err == nil || !strings.Contains(err.Error(), "capture the graph of rank 1") || p.native.ranks[0].exec != 0 || p.native.ranks[1].exec != 0 {
		t.Fatalf("a refused capture gave %v; graphs of the ranks: %v and %v, want none", err, p.native.ranks[0].exec, p.native.ranks[1].exec)
	}
	step.grid = grid
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 2}); err != nil || p.native.ranks[0].exec == 0 || p.native.ranks[1].exec == 0 {
		t.Errorf("the next run gave %v; graphs of the ranks: %v and %v, want one for each", err, p.native.ranks[0].exec, p.native.ranks[1].exec)
	}
}
