package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// checkDemoSweep: the table of a sweep without flags has at least three token counts of each op.
func checkDemoSweep(t *testing.T, dir string) {
	t.Helper()
	l, err := reports.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range l.Results {
		if r.Status != ep.OK && r.Reason == "" {
			t.Errorf("a trial is %s without a reason", r.Status)
		}
	}
	for _, name := range []string{record.RunFile, record.TrialsFile, record.TableFile, record.SummaryFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	covered := map[ep.Op]map[int]bool{}
	for _, r := range l.Table.Rows {
		for _, n := range r.Evidence.Tokens {
			if covered[r.Key.Op] == nil {
				covered[r.Key.Op] = map[int]bool{}
			}
			covered[r.Key.Op][n] = true
		}
	}
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine, ep.Pair} { // the ops of a sweep without --op
		if len(covered[op]) < 3 {
			t.Errorf("the table covers %d token counts of %s", len(covered[op]), op)
		}
	}
}

func cancelledAt(t *testing.T, file, text string) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if b, err := os.ReadFile(file); err == nil && len(b) > 0 && bytes.Contains(b, []byte(text)) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return ctx
}

// TestInterruptedSweep: after Ctrl-C sweep exits with code 130 and prints the command that continues it.
func TestInterruptedSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := 0
	useSteadyBackend(t, func() {
		if runs++; runs == 300 { // a whole sweep needs more calls
			cancel()
		}
	})
	var stdout, stderr bytes.Buffer
	args := []string{"sweep", "--backend=cpu", "--op=dispatch", "--tokens=16", "--routing=uniform,zipf:1.0,local", "--budget=12", "-o", dir}
	if code := run(ctx, args, &stdout, &stderr); code != exitInterrupted || !strings.Contains(stderr.String(), "--resume "+dir) {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	before, _, _, err := record.ReadDir(dir)
	if err != nil || !before.Finished.IsZero() {
		t.Fatalf("run.json after the interruption: finished %v, %v", before.Finished, err)
	}
	stderr.Reset()
	if code := run(context.Background(), []string{"sweep", "--resume=" + dir}, &stdout, &stderr); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	checkLog(t, dir)
	after, _, _, err := record.ReadDir(dir)
	if err != nil || before.Wall.Total <= 0 || after.Wall.Total <= before.Wall.Total || after.Wall.Measuring < before.Wall.Measuring {
		t.Errorf("wall time of both commands %+v, of the first %+v, %v", after.Wall, before.Wall, err)
	}
	if s := after.Wall.String(); !strings.Contains(stdout.String(), s[:strings.Index(s, ",")]) && !strings.Contains(stderr.String(), "no table") {
		t.Errorf("the output of the resumed sweep lacks %q", s)
	}
}
