package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/table"
)

// TestEightGPU runs the two calls of the script for hosts of 4 and 8 GPUs that make tables, on
// the embedded backend. All sweeps are in one table, but those within few SMs, whose gains are
// over other defaults: each of these stays a table of its own. What a call finished, a later
// one with its OUT as KEPT does not do again.
func TestEightGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real sweeps; left out with -short")
	}
	for _, need := range []string{"bash", "xz", "timeout", "split"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(err)
		}
	}
	bin, out := t.TempDir(), t.TempDir()
	if err := os.Symlink(program(t), filepath.Join(bin, "epbench")); err != nil {
		t.Fatal(err)
	}
	call := func(more ...string) string {
		cmd := exec.Command("bash", filepath.Join("..", "..", "native", "eight-gpu.sh"), "tables", "rest")
		cmd.Env = append(os.Environ(), append([]string{"BIN=" + bin, "BACKEND=cpu", "SPACE=", "RANKS=2", "OUT=" + out, "WORK=" + t.TempDir(), steadyEnv + "=1",
			"MODELS=demo:bf16", "SHAPE=--model demo", "OTHERS=qwen3-30b-a3b", "TABLE_TOKENS=1", "TOKENS=1,16", "OTHER_TOKENS=1", "TABLE_ROUTINGS=uniform",
			"ROUTINGS=uniform", "SMS=2", "TABLE_SECONDS=2", "ROUTING_SECONDS=2", "SM_SECONDS=2", "OTHER_SECONDS=2", "RECEIPT_ROWS=1"}, more...)...)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return string(text)
	}
	load := func(name string) *table.Table {
		tuned, err := loadTable(filepath.Join(out, name), false)
		if err != nil {
			t.Fatal(err)
		}
		return tuned
	}
	first := call()
	hidden := map[int]bool{}
	for _, r := range load("table.json").Rows {
		hidden[r.Key.Hidden] = true
	}
	if bounded := load("sms-2.json").Header.MaxSMs; !hidden[512] || !hidden[2048] || bounded != 2 {
		t.Errorf("hidden sizes %v in one table, at most %d SMs in the other\n%s", hidden, bounded, first)
	}
	if again := call("KEPT=" + out); strings.Count(again, "done by an earlier call") != 5 {
		t.Errorf("of five sweeps some were made again\n%s", again)
	}
}
