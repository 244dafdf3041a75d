//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRecordTruth: after a kill of native/record-truth.sh, finished recordings are complete. A second run measures only
// the other problems.
func TestRecordTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real sweeps; left out with -short")
	}
	dir, bin := t.TempDir(), program(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kernel := ": {blocks: {values: [1]}, chunk_bytes: {values: [2048, 16384]}, tile_tokens: {values: [4]}, wait_blocks: {values: [0]}}\n"
	env := append(os.Environ(), "EPBENCH="+bin, "BACKEND=cpu", "RANKS=2", steadyEnv+"=1", "KEPT="+filepath.Join(dir, "killed"),
		"SPACE="+write("space.yaml", "version: 1\nkernels:\n  dispatch"+kernel+"  combine"+kernel),
		"PROBLEMS="+write("problems.txt", "demo dispatch bf16 4 uniform\ndemo combine bf16 4 uniform\ndemo dispatch bf16 16 zipf:1.0\n"))
	script := func(ctx context.Context, out string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", filepath.Join("..", "..", "native", "record-truth.sh"), filepath.Join(dir, out), "300")
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 30 * time.Second
		return cmd
	}
	kept := func(out string) string {
		files, err := filepath.Glob(filepath.Join(dir, out, "*.run.json"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, filepath.Base(f))
		}
		return strings.Join(names, " ")
	}
	first := filepath.Join(dir, "killed", "demo-dispatch-bf16-4-uniform.run.json")
	_ = script(cancelledAt(t, first, "finished"), "killed").Run() // fails, because the script is killed
	before := kept("killed")
	if text, err := script(t.Context(), "rest").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	after := kept("rest")
	if n := len(strings.Fields(before)) + len(strings.Fields(after)); n != 3 || strings.Contains(before, "demo-dispatch-bf16-4-") && strings.Contains(after, "demo-dispatch-bf16-4-") {
		t.Errorf("recordings before the kill: %q, of the second run: %q; want 3 together, each problem once", before, after)
	}
	for _, out := range []string{"killed", "rest"} {
		if kept(out) == "" {
			continue
		}
		if text, err := exec.Command(bin, "replay", filepath.Join(dir, out), "--budget", "2", "--replays", "1").CombinedOutput(); err != nil {
			t.Errorf("replay of %s: %v\n%s", out, err, text)
		}
	}
}
