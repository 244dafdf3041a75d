package worker

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

// openPython starts the example worker in Python. A worker is a program that runs kernels for epbench and exchanges JSON
// messages with it. If tee is not "", the worker's messages are also written to the file tee.
func openPython(t *testing.T, tee string) *Backend {
	t.Helper()
	argv := []string{python(t), "../../examples/workers/copyworker.py"}
	if tee != "" {
		argv = []string{"sh", "-c", strings.Join(argv, " ") + " | tee " + tee}
	}
	b, err := Open(t.Context(), Command{Argv: argv}, DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestPythonWorker: the example worker runs every operation, and its outputs are right.
func TestPythonWorker(t *testing.T) {
	b := openPython(t, "")
	for _, op := range ep.Exchanges() {
		s := openWorkload(t, b, op)
		c := defaultOf(t, b, op)
		if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() || v.Rows == 0 {
			t.Errorf("%s: verdict %+v, %v", op, v, err)
		}
		r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 3})
		if err != nil || len(r.Seconds) != 2 {
			t.Errorf("%s: %+v, %v", op, r, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRankWithoutTokens: workers accept a routing in which some ranks have no tokens.
func TestRankWithoutTokens(t *testing.T) {
	toy, _ := openToy(t, toyFile, "")
	for _, b := range []*Backend{toy, openPython(t, "")} {
		for _, op := range ep.Exchanges() {
			k := kernels.Of(b.Kernels(), op)[0]
			p := toyProblem(op)
			if b != toy {
				p.Layout = ep.LayoutExpert
			}
			s := openProblem(t, b, p, "ragged:0:5")
			if v, err := s.Verify(t.Context(), k.DefaultConfig(b.Machine(), p)); err != nil || !v.OK() || v.Rows == 0 {
				t.Errorf("%s, %s: %+v, %v", b.welcome.Worker, op, v, err)
			}
			s.Close()
		}
	}
}

// TestPythonRules: a worker declares rules that say which configs are legal. epbench checks configs by these rules. If
// the worker itself refuses a config, the status of the config is illegal.
func TestPythonRules(t *testing.T) {
	b := openPython(t, "")
	k, err := kernels.Find(b.Kernels(), ep.Dispatch, "dispatch")
	if err != nil {
		t.Fatal(err)
	}
	p := ep.Problem{Dispatch: ep.BF16}
	good := k.DefaultConfig(b.Machine(), p)
	if err := k.Check(b.Machine(), p, good); err != nil {
		t.Errorf("default refused: %v", err)
	}
	if err := k.Check(b.Machine(), p, good.With("chunk", "100")); err == nil || !strings.Contains(err.Error(), "multiple of 16") {
		t.Errorf("chunk=100: %v", err)
	}
	if err := k.Check(b.Machine(), ep.Problem{Dispatch: ep.FP8}, good); err == nil {
		t.Error("fp8 was accepted")
	}
	s := openWorkload(t, b, ep.Dispatch)
	var f *kernels.Failure
	if err := s.Prepare(t.Context(), good.With("chunk", "100")); !errors.As(err, &f) || f.Status != ep.Illegal {
		t.Errorf("prepare chunk=100: %v", err)
	}
}

// TestPythonSpeaksTheSchema: the messages of the example worker agree with the published schema.
func TestPythonSpeaksTheSchema(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said.jsonl")
	b := openPython(t, said)
	s := openWorkload(t, b, ep.Combine)
	c := defaultOf(t, b, ep.Combine)
	if _, err := s.Verify(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	order := []string{"welcome", "session", "", "verify_reply", "run_reply"} // the empty one is for prepare, whose reply has no result
	compiler := jsonschema.NewCompiler()
	lines := readLines(t, said)
	if len(lines) < len(order) {
		t.Fatalf("%d messages, want %d", len(lines), len(order))
	}
	for i, name := range order {
		if name == "" {
			continue
		}
		schema, err := compiler.Compile("../../docs/schema/worker.v2.json" + "#/properties/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(lines[i]["result"]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHarnessTensors runs the test programs in testdata that need PyTorch.
func TestHarnessTensors(t *testing.T) {
	if err := exec.CommandContext(t.Context(), python(t), "-c", "import torch; torch.float8_e4m3fn").Run(); err != nil {
		t.Skip("no PyTorch here")
	}
	for _, file := range []string{"casts.py", "judge.py", "stale.py", "exports.py", "elastic.py", "layers.py", "fused.py", "chunks.py", "moves.py"} {
		t.Run(file, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), python(t), "testdata/"+file)
			command.WaitDelay = 30 * time.Second
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// readLines decodes the replies in a file. It leaves out messages that are no reply, such as heartbeats.
func readLines(t *testing.T, file string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range bytes.Lines(testfile.Read(t, file)) {
		m := testfile.JSON[map[string]any](t, line)
		if _, reply := m["id"]; reply {
			out = append(out, m)
		}
	}
	return out
}

// TestDeepEPDeclares: the worker for the library DeepEP declares the right parameters and rules. The test replaces PyTorch
// by an empty module, because the declaration does not need it.
func TestDeepEPDeclares(t *testing.T) {
	const program = `
import json, sys, types
sys.path.insert(0, "../../native/python/workers")
torch = types.ModuleType("torch")
torch.distributed = types.ModuleType("torch.distributed")
torch.__getattr__ = lambda name: None
sys.modules["torch"] = torch
sys.modules["torch.distributed"] = torch.distributed
from libraries.deepep import Library
l = Library()
l.ranks, l.version, l.machine = types.SimpleNamespace(ranks=2), "1", lambda: {"sms": 132}
print(json.dumps(l.kernels()))
`
	out, err := exec.Command(python(t), "-c", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	declared := testfile.JSON[[]KernelDecl](t, out)
	k, err := declared[0].kernel()
	if err != nil {
		t.Fatal(err)
	}
	sms := k.Params[0].Values
	if got := sms[len(sms)-1]; got != "132" || !slices.Contains(sms, "96") {
		t.Errorf("sms %v", sms)
	}
	m := ep.Machine{SMs: 132}
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Hidden: 7168, Experts: 256, TopK: 8, Dispatch: ep.BF16, Layout: ep.LayoutRankPacked}
	for _, c := range []struct {
		sms    string
		ranks  int
		reason string
	}{{"132", 2, ""}, {"64", 8, ""}, {"132", 8, "the channels do not fit"}, {"134", 2, "the GPU has fewer"}, {"21", 2, "must be even"}} {
		p.Ranks = c.ranks
		err := k.Check(m, p, k.DefaultConfig(m, p).With("sms", ep.Value(c.sms)))
		if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("sms=%s on %d ranks: %v, want %q", c.sms, c.ranks, err, c.reason)
		}
	}
}
