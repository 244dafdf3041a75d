package reports

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func libraryRun(name, layout string, times map[int]float64, pci string) *Loaded {
	run := &record.Run{Machine: ep.Machine{Backend: name, PCIID: pci, Arch: "sm_90", SMs: 132, GPUs: 2}, Band: 0.01,
		Kernels: []record.Kernel{{Name: name, Op: ep.Dispatch, Work: ep.Work{Library: name, Version: "1", Layout: layout, Inside: []string{"counts"}}}}}
	var results []record.Result
	for _, tokens := range []int{1, 128, 4096} {
		us, ok := times[tokens]
		if !ok {
			continue
		}
		r := record.Result{Routing: "uniform", Seed: 1, Config: ep.Config{Kernel: name, Values: map[string]ep.Value{}}, Role: record.Default,
			Stage: record.StageConfirm, Status: ep.OK, Clock: "chain", Fold: 1,
			Problem: ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
				Tokens: tokens, MaxTokens: 128 * len(name), Dispatch: ep.BF16, Combine: ep.BF16}}
		for i := range 20 {
			r.Seconds = append(r.Seconds, []float64{us * (1 + float64(i%5)/1000) * 1e-6, us * 1e-6})
		}
		results = append(results, r)
	}
	return &Loaded{Path: name, Run: run, Results: results, Cases: Cases(run, results)}
}

func TestCompareLibraries(t *testing.T) {
	all := []*Loaded{
		libraryRun("deepep", "rank", map[int]float64{1: 20, 128: 30, 4096: 340}, "10de:2335"),
		libraryRun("flashinfer", "rank", map[int]float64{1: 8, 128: 30.1, 4096: 170}, "10de:2335"),
		libraryRun("nccl", "rank", map[int]float64{1: 9}, "10de:2335"),
		libraryRun("epcomm", "expert", map[int]float64{1: 4, 128: 9, 4096: 206}, "10de:2335"),
	}
	choices, err := CompareLibraries(all)
	if err != nil || len(choices) != 6 {
		t.Fatalf("%d choices, %v; want three token counts of two layouts", len(choices), err)
	}
	want := map[string]string{
		"expert 1": "epcomm", "expert 128": "epcomm", "expert 4096": "epcomm",
		"rank 1": "flashinfer nccl deepep", "rank 128": "deepep flashinfer", "rank 4096": "flashinfer deepep",
	}
	for _, c := range choices {
		var names []string
		for _, o := range c.Libraries {
			names = append(names, strings.TrimSuffix(o.Library, " 1"))
		}
		layout, _, _ := strings.Cut(c.Work, " ")
		if got := strings.Join(names, " "); got != want[layout+" "+Int(c.Problem.Tokens).Text] {
			t.Errorf("%s, %d tokens: %s", c.Work, c.Problem.Tokens, got)
		}
		if decided := layout == "rank" && c.Problem.Tokens != 128; c.Decided() != decided {
			t.Errorf("%s, %d tokens: decided %v, gain %+v", c.Work, c.Problem.Tokens, c.Decided(), c.Gain)
		}
	}
	// At 128 tokens deepep and flashinfer differ by less than the band.
	notes := strings.Join(FastestTable(choices).Notes, "\n")
	if want := "(rank +counts, chain): from 1 token on flashinfer 1"; !strings.Contains(notes, want) || strings.Contains(notes, "on deepep") {
		t.Errorf("notes\n%s\nwant %q, without a change to deepep", notes, want)
	}
	if _, err := CompareLibraries(append(all, libraryRun("other", "rank", map[int]float64{1: 1}, "10de:2330"))); err == nil {
		t.Error("runs of two machines were compared")
	}
	if _, err := CompareLibraries(append(all, libraryRun("cpu", "rank", map[int]float64{1: 1}, ""))); err == nil || !strings.HasSuffix(err.Error(), "cpu on sm_90, 132 SMs") {
		t.Errorf("a machine without a PCI id: %v", err)
	}
}

// TestCompareLibrariesChange: at 4,096 tokens the advice changes from a to b. Library c is nearly as fast as b. It
// must not prevent the change.
func TestCompareLibrariesChange(t *testing.T) {
	choices, err := CompareLibraries([]*Loaded{
		libraryRun("a", "rank", map[int]float64{1: 10, 128: 10, 4096: 200}, ""),
		libraryRun("b", "rank", map[int]float64{1: 15, 128: 9.95, 4096: 100}, ""),
		libraryRun("c", "rank", map[int]float64{1: 16, 128: 12, 4096: 100.2}, ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(FastestTable(choices).Notes, "\n")
	if want := "from 1 token on a 1, from 4096 tokens on b 1"; !strings.Contains(notes, want) {
		t.Errorf("notes\n%s\nwant %q", notes, want)
	}
}

func TestCompareLibrariesSeeds(t *testing.T) {
	runs := []*Loaded{libraryRun("a", "rank", map[int]float64{1: 10}, ""), libraryRun("b", "rank", map[int]float64{1: 15}, "")}
	runs[1].Results[0].Seed = 2
	runs[1].Cases = Cases(runs[1].Run, runs[1].Results)
	if choices, err := CompareLibraries(runs); err != nil || len(choices) != 2 {
		t.Errorf("%d choices, %v; want one for each seed", len(choices), err)
	}
}

// TestCompareLibrariesTurns: a drift that both runs share does not widen the interval.
func TestCompareLibrariesTurns(t *testing.T) {
	runs := []*Loaded{libraryRun("deepep", "rank", map[int]float64{128: 11}, ""), libraryRun("nccl", "rank", map[int]float64{128: 10}, "")}
	for _, l := range runs {
		l.Run.InterleaveID = "one"
		for i := range l.Results[0].Seconds {
			for k := range l.Results[0].Seconds[i] {
				l.Results[0].Seconds[i][k] *= 1 + float64(i)/4
			}
		}
		l.Cases = Cases(l.Run, l.Results)
	}
	width := func(turns string) (float64, string) {
		runs[1].Run.InterleaveID = turns
		choices, err := CompareLibraries(runs)
		if err != nil || len(choices) != 1 || choices[0].Interleaved != (turns == "one") {
			t.Fatalf("%+v, %v", choices, err)
		}
		return choices[0].Gain.High - choices[0].Gain.Low, strings.Join(FastestTable(choices).Notes, "\n")
	}
	in, said := width("one")
	if !strings.Contains(said, "took turns") {
		t.Error(said)
	}
	after, said := width("another")
	if !strings.Contains(said, "one after the other") {
		t.Error(said)
	}
	if in > 0.01 || after < 0.3 {
		t.Errorf("runs that took turns: interval width %g, want at most 0.01; runs one after the other: width %g, want at least 0.3", in, after)
	}
}

func TestLibraryTable(t *testing.T) {
	runs := []*Loaded{libraryRun("deepep", "rank", map[int]float64{1: 20}, ""), libraryRun("nccl", "rank", map[int]float64{1: 10}, ""), libraryRun("deepep", "rank", map[int]float64{1: 30}, "")}
	runs[2].Path = "defaults"
	runs[0].Run.Searches = []record.Search{{Problem: runs[0].Cases[0].Problem, Routing: "uniform", Decision: record.Decision{Config: runs[0].Cases[0].Entries[0].Config,
		Gain: record.Interval{Mid: 1.5, Low: 1.4, High: 1.6}, Verdict: record.Faster}}}
	runs[0].Cases = Cases(runs[0].Run, runs[0].Results)
	choices, err := CompareLibraries(runs)
	if err != nil || !SeveralRuns(choices) {
		t.Fatal(err)
	}
	table := LibraryTable(choices)
	var got []string
	for _, row := range table.Rows {
		var cells []string
		for i, c := range row {
			if name := table.Columns[i].Name; name == "library" || name == "to fastest" || name == "gain" || name == "low" {
				cells = append(cells, c.Text)
			}
		}
		got = append(got, strings.Join(cells, " "))
	}
	if notes := strings.Join(FastestTable(choices).Notes, "\n"); !strings.Contains(notes,
		"tuning gains deepep 1 (deepep) 1.500x [1.400, 1.600] over its own default (geometric mean of 1 case); the largest gain is 1.500x [1.400, 1.600] (dispatch, 1 token, uniform)") {
		t.Errorf("notes\n%s", notes)
	}
	want := "nccl 1 1.000 - -, deepep 1 (deepep) 2.000 1.500 1.400, deepep 1 (defaults) 3.000 - -"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestCompareLibrariesWarnsOfSeeds(t *testing.T) {
	a, b := libraryRun("a", "rank", map[int]float64{1: 2}, ""), libraryRun("b", "rank", map[int]float64{1: 1}, "")
	b.Results[0].Seed = 5
	b.Cases = Cases(b.Run, b.Results)
	choices, err := CompareLibraries([]*Loaded{a, b})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []Table{FastestTable(choices), LibraryTable(choices)} {
		if len(table.Warnings) != 1 || !strings.HasPrefix(table.Warnings[0], "a has seed 1, b has seed 5: ") {
			t.Errorf("%s: warnings %q", table.Name, table.Warnings)
		}
		if notes := strings.Join(table.Notes, "\n"); !strings.Contains(notes, "no times are compared") || strings.Contains(notes, "one after the other") {
			t.Errorf("%s: no case has two libraries, but the notes are %q", table.Name, notes)
		}
	}
}

func TestCompareLibrariesUnknownWork(t *testing.T) {
	a, b := libraryRun("a", "rank", map[int]float64{1: 2}, ""), libraryRun("b", "rank", map[int]float64{1: 1}, "")
	a.Run.Kernels, b.Run.Kernels = nil, nil
	choices, err := CompareLibraries([]*Loaded{a, b})
	if err != nil || len(choices) != 2 || len(choices[0].Libraries) != 1 || choices[0].Work != "unknown, chain" {
		t.Errorf("%+v, %v", choices, err)
	}
}
