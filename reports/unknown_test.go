package reports_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// shapeTable returns a table of two rows: the shape of p has the values `own`, and a larger hidden size has
// `neighbour`.
func shapeTable(p ep.Problem, own, neighbour string, relax ...string) *table.Table {
	t := &table.Table{Schema: table.Schema, Header: table.Header{Fallback: relax}}
	for i, values := range []string{own, neighbour} {
		c, err := ep.ParseConfig("k:" + values)
		if err != nil {
			panic(err)
		}
		k := table.KeyOf(p, ep.Even)
		k.Hidden += 512 * i
		t.Rows = append(t.Rows, table.Row{Key: k, Lo: 1, Hi: 128, Config: c})
	}
	return t
}

func TestUnknownShapesGetTheNeighbours(t *testing.T) {
	l := build([]trial{
		{"uniform", "sms=8", def, "screen", 0, times(40, 5), ""}, {"uniform", "sms=16", cand, "screen", 0, times(20, 5), ""},
		{"uniform", "sms=32", cand, "screen", 0, times(25, 5), ""}, {"uniform", "sms=64", cand, "screen", 0, times(50, 5), ""},
		{"uniform", "sms=4", cand, "screen", 0, times(40.2, 5), ""},
	})
	p := l.Cases[0].Problem
	if all := reports.UnknownShapes(shapeTable(p, "sms=16", "sms=32", "hidden"), l.Cases); len(all) != 0 {
		t.Errorf("a case without a search was judged: %v", all)
	}
	l.Cases[0].Search = &record.Search{Class: ep.Even}
	for _, c := range []struct {
		neighbour  string
		relax      string
		loss, gain float64
		told       bool
		slower     int
	}{
		{"sms=32", "hidden", 0.25, 1.6, true, 0},
		{"sms=16", "hidden", 0, 2, true, 0},
		{"sms=64", "hidden", 1.5, 0.8, true, 1},
		{"sms=4", "hidden", 1.01, 1 / 1.005, true, 0},         // 0.5 % slower is within the band
		{"sms=99", "hidden", math.NaN(), math.NaN(), true, 0}, // not measured
		{"sms=32", "top_k", 1, 1, false, 0},                   // a row with another hidden size may not answer
	} {
		all := reports.UnknownShapes(shapeTable(p, "sms=16", c.neighbour, c.relax), l.Cases)
		if len(all) != 1 || !near(all[0].Loss, c.loss) || !near(all[0].Gain, c.gain) || (all[0].Answer.Row != nil) != c.told {
			t.Errorf("neighbour %s, look-ups may ignore %s: %+v", c.neighbour, c.relax, all)
		}
		table, slower := reports.UnknownShapeTable(all, 0.01)
		if len(table.Rows) != 1 || slower != c.slower {
			t.Errorf("neighbour %s: the table has %d lines, want 1; %d lines are slower, want %d", c.neighbour, len(table.Rows), slower, c.slower)
		}
	}
}

func near(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-9 }

// TestUnknownTableSumsUp: cases that differ only in shape share one line. It names the worst case.
func TestUnknownTableSumsUp(t *testing.T) {
	var all []reports.UnknownShape
	for i, u := range []reports.UnknownShape{
		{Loss: 0.1, Gain: 2}, {Loss: 0.3, Gain: 1.5}, {Loss: 0, Gain: 3}, {Loss: math.NaN(), Gain: math.NaN()}, {Loss: 0.2, Gain: 0.9},
	} {
		p := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 8, Nodes: 1, Hidden: 1024 + 512*i, Experts: 64, TopK: 8,
			Tokens: 64, MaxTokens: 64, Dispatch: ep.BF16, Combine: ep.BF16}
		if i == 4 {
			p.Dispatch = ep.FP8
		}
		u.Case, u.Answer.Row = &reports.Case{Problem: p, Routing: "uniform"}, &table.Row{}
		all = append(all, u)
	}
	table, slower := reports.UnknownShapeTable(all, 0.01)
	var got []string
	for _, r := range table.Rows {
		var words []string
		for _, c := range r {
			words = append(words, c.Text)
		}
		got = append(got, strings.Join(words, " "))
	}
	want := "[dispatch graph bf16 8 full 64 4 4 4 1 1.50 10.0 26.0 30.0 1536/64/8 uniform dispatch graph fp8 8 full 64 1 1 1 0 0.90 20.0 20.0 20.0 3072/64/8 uniform]"
	if fmt.Sprint(got) != want || slower != 1 {
		t.Errorf("%d lines are slower, want 1; got\n%v, want\n%s", slower, got, want)
	}
}

// TestUnknownTableWithoutAnswers: a case without an answer does not count as slower.
func TestUnknownTableWithoutAnswers(t *testing.T) {
	p := ep.Problem{Op: ep.Dispatch, Tokens: 64}
	table, slower := reports.UnknownShapeTable([]reports.UnknownShape{{Case: &reports.Case{Problem: p}, Loss: 0, Gain: 1}}, 0.01)
	if slower != 0 || len(table.Rows) != 1 || table.Rows[0][10].Text != "-" || !strings.Contains(table.Notes[0], "1 cases, 0 answered by a row, none of them measured") {
		t.Errorf("%+v", table)
	}
}
