package main

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// routingTables gathers what workload prints.
type routingTables struct {
	link     float64
	skew     reports.Table
	wire     reports.Table
	matrices []reports.Table
}

func newRoutingTables(link float64) routingTables {
	n := reports.Numbers
	t := routingTables{link: link}
	t.skew = reports.Table{
		Name: "routing", Title: "What was drawn",
		Columns: []reports.Column{
			reports.Words("routing"), n("tokens", ""), n("gini", ""), n("cv", "").Dropped(5),
			n("expert", "x"), n("rank", "x"), n("pair", "x").Dropped(6), n("ranks", ""), n("local", "%"),
			n("entropy", "bit").Dropped(8), n("effective", ""), n("top20", "%").Dropped(7),
			n("selections", "").Dropped(9), reports.Words("class"),
		},
		Notes: []string{
			"tokens: per rank, of the fullest; expert, rank, pair: largest load over the mean, of experts, ranks, and (expert, source rank)",
			"ranks: distinct ranks a token visits; effective: 2^entropy experts; top20: selections of the most popular fifth; class: what tables key by",
		},
	}
	t.wire = reports.Table{
		Name: "wire", Title: "What the busiest rank moves",
		Columns: []reports.Column{
			reports.Words("routing"), n("tokens", ""), reports.Words("format"), n("message", "B").Dropped(3),
			n("dispatch", "MB"), n("dispatch dedup", "MB"), n("combine", "MB"), n("combine dedup", "MB"),
		},
		Notes: []string{"more of sent and received, what stays on the rank not counted; a message a selected expert, or dedup: a distinct rank"},
	}
	if link > 0 {
		t.wire.Columns = append(t.wire.Columns, n("dispatch floor", "us"), n("combine floor", "us"))
		t.wire.Notes = append(t.wire.Notes, fmt.Sprintf("floor: the dedup bytes at %g GB/s, below which no kernel gets", link))
	}
	return t
}

// add measures one workload.
func (t *routingTables) add(w *workloads.Workload) {
	p := w.Problem
	if p.Dispatch == t.format(p) {
		s := w.Stats()
		t.skew.Add(reports.Str(w.Spec), reports.Int(p.Tokens), reports.Float(s.Gini, 3), reports.Float(s.CV, 3),
			reports.Float(s.MaxMeanExpert, 2), reports.Float(s.MaxMeanRank, 2), reports.Float(s.MaxMeanPair, 2),
			reports.Float(s.DistinctRanks, 2), reports.Percent(s.LocalShare), reports.Float(s.Entropy, 2),
			reports.Float(s.EffectiveExperts, 1), reports.Percent(s.Top20Share), reports.Int(int(s.Selections)),
			reports.Str(string(ep.Classify(w.TotalCounts(), p.Ranks))))
	}
	message := workloads.MessageBytes(p.Dispatch, p.Hidden, p.TopK)
	dispatch, combine := w.BytesDispatch(workloads.Dedup), w.BytesCombine(workloads.Dedup)
	row := []reports.Cell{
		reports.Str(w.Spec), reports.Int(p.Tokens), reports.Str(string(p.Dispatch)), reports.Int(message),
		megabytes(w.BytesDispatch(workloads.Direct)), megabytes(dispatch),
		megabytes(w.BytesCombine(workloads.Direct)), megabytes(combine),
	}
	if t.link > 0 {
		row = append(row, reports.Micros(workloads.WireFloor(dispatch, t.link)), reports.Micros(workloads.WireFloor(combine, t.link)))
	}
	t.wire.Add(row...)
	t.matrices = append(t.matrices, matrixTable(w, message, len(t.matrices)))
}

// format is the first format seen: skew does not depend on it.
func (t *routingTables) format(p ep.Problem) ep.DType {
	if len(t.wire.Rows) == 0 {
		return p.Dispatch
	}
	return ep.DType(t.wire.Rows[0][2].Text)
}

func (t *routingTables) solved(spec string, s workloads.Solution) {
	note := fmt.Sprintf("%s: %s = %.4g gives an expected %s of %.4g", spec, s.Param, s.Value, s.Aim, s.Expected)
	if !slices.Contains(t.skew.Notes, note) {
		t.skew.Notes = append(t.skew.Notes, note)
	}
}

func (t *routingTables) tables(matrix bool) []reports.Table {
	out := []reports.Table{t.skew, t.wire}
	if matrix {
		out = append(out, t.matrices...)
	}
	return out
}

func matrixTable(w *workloads.Workload, message, number int) reports.Table {
	p := w.Problem
	t := reports.Table{
		Name:    fmt.Sprintf("matrix-%d", number),
		Title:   fmt.Sprintf("Dispatch of %s, %d tokens, %s: MB from rank (row) to rank, a message a selected expert", w.Spec, p.Tokens, p.Dispatch),
		Columns: []reports.Column{reports.Words("from")},
	}
	for r := range p.Ranks {
		t.Columns = append(t.Columns, reports.Numbers(fmt.Sprintf("to %d", r), "MB"))
	}
	for r, row := range w.Rows(workloads.Direct).Bytes(message) {
		cells := []reports.Cell{reports.Int(r)}
		for _, b := range row {
			cells = append(cells, megabytes(b))
		}
		t.Add(cells...)
	}
	return t
}

func megabytes(b int64) reports.Cell {
	mb := float64(b) / 1e6
	switch {
	case mb < 1:
		return reports.Float(mb, 4)
	case mb < 100:
		return reports.Float(mb, 2)
	}
	return reports.Float(mb, 1)
}
