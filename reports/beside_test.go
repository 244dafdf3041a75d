package reports_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func besideProblem() ep.Problem {
	return ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 32, TopK: 4, Tokens: 16, MaxTokens: 16,
		Dispatch: ep.BF16, Combine: ep.BF16, Beside: "copy", Objective: ep.BesideProduct}
}

// besideLine returns a log line. The call takes `alone` us, and the product takes 100 us. Both together take `cost`
// us longer than the product.
func besideLine(config string, sms int, alone, cost float64) record.Result {
	c, err := ep.ParseConfig(config)
	if err != nil {
		panic(err)
	}
	rows := func(us float64) [][]float64 {
		return [][]float64{{us * 1e-6, us * 0.9e-6}, {us * 1e-6, us * 0.9e-6}, {us * 1e-6, us * 0.9e-6}}
	}
	t := &ep.BesideRounds{Call: rows(alone), Product: rows(100), Both: rows(100 + cost), CallIn: rows(2 * alone), ProductIn: rows(100 + cost), Done: rows(0.5e6), Amount: "x"}
	return record.Result{Problem: besideProblem(), Routing: "uniform", Seed: 1, Config: c, Cost: ep.Cost{SMs: sms}, Role: record.Candidate,
		Stage: record.StageFinals, Status: ep.OK, Clock: "stamp", Fold: 1, Seconds: t.Cost(), Beside: t}
}

func TestBesidePareto(t *testing.T) {
	lines := []record.Result{besideLine("d:sms=8", 8, 40, 6), besideLine("d:sms=132", 132, 10, 30),
		besideLine("d_split:sms=64", 64, 15, 5), besideLine("d:mode=split,sms=32", 32, 20, 8)}
	lines[0].Role = record.Default
	cases := reports.Cases(&record.Run{}, lines)
	b, ok := reports.BesideParetoOf(cases[0])
	if !ok || len(b.Alone.All) != 4 || len(b.Cost.All) != 4 || len(b.Phased) != 2 {
		t.Fatalf("ok %v; %d points by time alone, %d by cost, %d in split phases; want 4, 4 and 2", ok, len(b.Alone.All), len(b.Cost.All), len(b.Phased))
	}
	sms := func(p reports.Pareto) (out []int) {
		for _, e := range p.Front {
			out = append(out, e.Cost.SMs)
		}
		return out
	}
	if got := sms(b.Alone); !slices.Equal(got, []int{8, 32, 64, 132}) {
		t.Errorf("front alone: %v", got)
	}
	if got := sms(b.Cost); !slices.Equal(got, []int{8, 64}) {
		t.Errorf("front of costs: %v", got)
	}
	for i := range lines {
		lines[i].Beside = nil
	}
	if _, ok := reports.BesideParetoOf(reports.Cases(&record.Run{}, lines)[0]); ok {
		t.Error("a run in which nothing was measured beside a product has Pareto fronts for such calls")
	}
}

func TestBesideTable(t *testing.T) {
	config, _ := ep.ParseConfig("d:sms=64")
	over, _ := ep.ParseConfig("d:sms=8")
	one := func(us float64) record.Interval {
		return record.Interval{Mid: us * 1e-6, Low: us * 0.9e-6, High: us * 1.1e-6}
	}
	saved := one(25)
	s := record.Search{Problem: besideProblem(), Routing: "uniform", Decision: record.Decision{Config: config, Default: over},
		Beside: &record.BesidePair{Saved: &saved,
			Config:  record.Beside{Call: one(15), CallIn: one(20), Product: one(100), ProductIn: one(105), Both: one(105), Cost: one(5), Slowdown: record.Interval{Mid: 1.05}, Done: 0.4, Amount: "2 launches"},
			Default: record.Beside{Call: one(40), CallIn: one(50), Product: one(100), ProductIn: one(130), Both: one(130), Cost: one(30), Slowdown: record.Interval{Mid: 1.3}, Done: 0.5}}}
	run := &record.Run{Searches: []record.Search{s}}
	for _, reference := range []string{"", "table: exact"} {
		run.Searches[0].Reference = reference
		table, ok := reports.BesideTable(run)
		if !ok || len(table.Rows) != 2 {
			t.Fatalf("ok %v, %d rows, want 2", ok, len(table.Rows))
		}
		text := []string{}
		for _, c := range table.Rows[0][len(table.Rows[0])-14:] {
			text = append(text, c.Text)
		}
		if got := strings.Join(text, " "); got != config.ID()+" 15.00 20.00 100.00 105.0 5.0 105.0 5.00 4.50 5.50 40.0 25.00 22.50 27.50" {
			t.Errorf("the config's row: %s", got)
		}
		want := over.ID()
		if reference == "" {
			want = "default"
		}
		if got := table.Rows[1][len(table.Rows[1])-14].Text; got != want {
			t.Errorf("the second row is of %s, want %s", got, want)
		}
		if !slices.ContainsFunc(table.Notes, func(n string) bool { return strings.Contains(n, "product that runs beside one call is 2 launches") }) {
			t.Errorf("notes: %q", table.Notes)
		}
	}
	run.Searches[0].Beside = nil
	if _, ok := reports.BesideTable(run); ok {
		t.Error("a run in which nothing was measured beside a product has a table of costs")
	}
}

func TestBesideTables(t *testing.T) {
	run := func(library, kernel string, layout ep.Layout, tokens ...int) *record.Run {
		r := &record.Run{Kernels: []record.Kernel{{Name: kernel, Op: ep.Dispatch, Work: ep.Work{Library: library, Layout: "rank", Inside: []string{"counts"}}}}}
		for _, n := range tokens {
			p := besideProblem().AtTokens(n, 128)
			p.Layout = layout
			c := ep.Config{Kernel: kernel, Values: map[string]ep.Value{"sms": "24"}}
			r.Searches = append(r.Searches, record.Search{Problem: p, Routing: "uniform", Decision: record.Decision{Config: c, Default: c.With("sms", "20")},
				Beside: &record.BesidePair{Config: record.Beside{Amount: library + "'s share"}}})
		}
		return r
	}
	table, ok := reports.BesideTables([]*record.Run{run("ours", "d", "", 32, 128), run("deepep", "deepep-ll", ep.LayoutMasked, 32)})
	if !ok || len(table.Rows) != 6 {
		t.Fatalf("ok %v, %d rows, want 6", ok, len(table.Rows))
	}
	column := slices.IndexFunc(table.Columns, func(c reports.Column) bool { return c.Name == "library" })
	var libraries []string
	for _, r := range table.Rows {
		libraries = append(libraries, r[column].Text)
	}
	if want := []string{"ours", "ours", "deepep", "deepep", "ours", "ours"}; !slices.Equal(libraries, want) {
		t.Errorf("libraries %q, want %q", libraries, want)
	}
	if slices.ContainsFunc(table.Columns, func(c reports.Column) bool { return c.Name == "layout" || c.Name == "max tokens" }) {
		t.Error("a value that the library sets by itself is a column")
	}
	for _, want := range []string{": deepep-ll:sms=20", "a call of deepep, dispatch: rank", "deepep: the part of the product that runs beside one call is deepep's share"} {
		if !slices.ContainsFunc(table.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("notes lack %q: %q", want, table.Notes)
		}
	}
	if _, ok := reports.BesideTables([]*record.Run{{}}); ok {
		t.Error("runs without products have a table of costs")
	}
}
