package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/testfile"
)

// TestInterruptedBench: after Ctrl-C bench prints and writes the finished cases.
func TestInterruptedBench(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	ctx := cancelledAt(t, filepath.Join(dir, record.TrialsFile), `"tokens":2,`)
	var stdout, stderr bytes.Buffer
	args := []string{"bench", "--backend=cpu", "--op=dispatch,combine", "--tokens=1:512", "--routing=uniform", "--rounds=5", "-o", dir}
	if code := run(ctx, args, &stdout, &stderr); code != exitInterrupted {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	r, _, _, err := record.ReadDir(dir)
	if err != nil || !r.Finished.IsZero() || len(r.Searches) == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if want := fmt.Sprintf("stopped with %d of 1024 cases done", len(r.Searches)); !strings.Contains(stderr.String(), want) {
		t.Errorf("want %q, got %s", want, stderr.String())
	}
	if n := strings.Count(stdout.String(), "uniform"); n != len(r.Searches) {
		t.Errorf("%d cases were printed, want the %d finished ones", n, len(r.Searches))
	}
}

// cpuWithNewParameter declares that the CPU backend's parameter `stores` is new, and that earlier builds behaved as
// stores=cached does.
type cpuWithNewParameter struct{ kernels.Backend }

func (g cpuWithNewParameter) Kernels() []kernels.Kernel {
	all := g.Backend.Kernels()
	for i := range all {
		all[i].Params = slices.Clone(all[i].Params)
		for k := range all[i].Params {
			if all[i].Params[k].Name == "stores" {
				all[i].Params[k].Before = "cached"
			}
		}
	}
	return all
}

// TestBenchOfEarlierRows: bench adds stores=cached to a row of an earlier build.
func TestBenchOfEarlierRows(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p, path := tableOf(t, b, "dispatch:algo=direct,blocks=1,chunk_bytes=16384,mode=fused,tile_tokens=4,wait_blocks=0")
	pick, err := fromTable(cpuWithNewParameter{b}, "--table", path)
	if err != nil {
		t.Fatal(err)
	}
	p.Tokens, p.MaxTokens = 4, 4
	if c, reason, err := pick(p, ep.Even); err != nil || c.Values["stores"] != "cached" {
		t.Errorf("%s: %s, %v", c.Key(), reason, err)
	}
}

func TestBandNote(t *testing.T) {
	if got := bandNote(benchSessions, 0.02, 0.01); !strings.Contains(got, "For two runs of 12 sessions, compare needs a band of at least 3.7 %; for two runs of 100 sessions, it needs 1.1 %. The default band is 1.0 %") {
		t.Errorf("on a GPU: %s", got)
	}
	if got := bandNote(benchSessions, 0.02, 0.05) + bandNote(benchSessions, 0, 0.1); got != "" {
		t.Errorf("a note for a wide band, or for a machine whose sessions do not differ: %s", got)
	}
}

func TestIntervalsPageStatesReach(t *testing.T) {
	spread := ep.Machine{GPUs: 2}.SessionSpread()
	page := testfile.Read(t, "../../docs/intervals.md")
	text := strings.Join(strings.Fields(string(page)), " ")
	reach := func(sessions int) float64 { return 100 * stat.RatioReach(sessions, spread) }
	for _, want := range []string{
		fmt.Sprintf("With `S` sessions in each run and a deviation of %.0f %% between them", 100*spread),
		fmt.Sprintf("%.1f %% for three, %.1f %% for twelve, %.1f %% for twenty", reach(3), reach(12), reach(20)),
		fmt.Sprintf("twice the half width: %.1f %% for twelve", 100*stat.DecidedBand(benchSessions, spread)),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestBenchOfIllegalRows: if a row's config cannot run here, bench measures the default.
func TestBenchOfIllegalRows(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, path := tableOf(t, b, "dispatch:algo=direct,blocks=99999,chunk_bytes=16384,mode=fused,stores=cached,tile_tokens=4,wait_blocks=0")
	var stdout, stderr bytes.Buffer
	args := strings.Fields("bench --backend=cpu --ranks=4 --hidden=1024 --op=dispatch --tokens=4 --routing=uniform --rounds=3 --table=" + path)
	if code := run(context.Background(), args, &stdout, &stderr); code != exitDone || !strings.Contains(stderr.String(), "the table's config cannot run here, so the default runs: blocks: ") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func tableOf(t *testing.T, b kernels.Backend, config string) (p ep.Problem, path string) {
	t.Helper()
	p = ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 512, Experts: 32, TopK: 4, Dispatch: ep.BF16, Combine: ep.BF16}
	tuned := &table.Table{Schema: table.Schema, Header: table.Header{Created: time.Now(), ABI: "abi", Machine: b.Machine(), Fallback: []string{"routing", "hidden"}}}
	c, err := ep.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tuned.Rows = []table.Row{{Key: table.KeyOf(p, ep.AllRoutings), Lo: 1, Hi: 64, Config: c,
		Evidence: table.Evidence{Gain: 2, GainLow: 1.9, GainHigh: 2.1, Rounds: 20, Routings: []string{"uniform"}, Tokens: []int{1}}}}
	if err := tuned.Seal(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "table.json")
	if err := record.WriteFile(path, tuned); err != nil {
		t.Fatal(err)
	}
	return p, path
}
