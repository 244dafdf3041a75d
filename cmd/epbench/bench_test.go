package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/reports"
)

// TestInterruptedBench is Ctrl-C: exit 130, and the cases done until then are printed and
// written.
func TestInterruptedBench(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(context.Background())
	defer time.AfterFunc(700*time.Millisecond, cancel).Stop()
	var stdout, stderr bytes.Buffer
	args := []string{"bench", "--backend=cpu", "--op=dispatch,combine", "--tokens=1:512", "--routing=uniform", "--rounds=5", "-o", dir}
	if code := run(ctx, args, &stdout, &stderr); code != exitInterrupted {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	r, _, _, err := reports.ReadDir(dir)
	if err != nil || !r.Finished.IsZero() || len(r.Outcomes) == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if want := fmt.Sprintf("stopped with %d of 1024 cases done", len(r.Outcomes)); !strings.Contains(stderr.String(), want) {
		t.Errorf("want %q, got %s", want, stderr.String())
	}
	if n := strings.Count(stdout.String(), "uniform"); n != len(r.Outcomes) {
		t.Errorf("%d cases printed, %d done", n, len(r.Outcomes))
	}
}
