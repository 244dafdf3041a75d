package main

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
)

type routingTables struct {
	link     float64 // GB/s each way; 0: no wire limits
	skew     reports.Table
	wire     reports.Table
	matrices []reports.Table
}

func newRoutingTables(link float64) routingTables {
	n := reports.Numbers
	t := routingTables{link: link}
	t.skew = reports.Table{
		Name: "routing", Title: "Skew of the drawn routings",
		Columns: []reports.Column{
			reports.Words("routing"), n("tokens", ""), n("gini", ""), n("cv", "").Dropped(5),
			n("expert", "x"), n("rank", "x"), n("pair", "x").Dropped(6), n("ranks", ""), n("local", "%"),
			n("entropy", "bit").Dropped(8), n("effective", ""), n("top20", "%").Dropped(7),
			n("selections", "").Dropped(9), reports.Words("class"),
		},
		Notes: []string{
			"tokens: number of tokens of the fullest rank; expert: largest load of an expert divided by the mean load; rank: the same for ranks; pair: the same for pairs of an expert and a source rank",
			"ranks: distinct ranks that a token visits; effective: 2^entropy experts; top20: share of the most popular fifth of the experts",
			"class: the routing class, by which a look-up finds a row of a tuned table; the class is computed from many tokens, whatever the value of --tokens",
		},
	}
	t.wire = reports.Table{
		Name: "wire", Title: "Traffic of the busiest rank",
		Columns: []reports.Column{
			reports.Words("routing"), n("tokens", ""), reports.Words("dtype"), n("message", "B").Dropped(3),
			n("dispatch", "MB"), n("dispatch dedup", "MB"), n("combine", "MB"), n("combine dedup", "MB"),
		},
		Notes: []string{
			"bytes: sent or received, whichever is larger, without bytes that stay on the rank",
			"dispatch, combine: a token goes once to each selected expert; dedup: once to each rank of a selected expert",
		},
	}
	if link > 0 {
		t.wire.Columns = append(t.wire.Columns, n("dispatch limit", "us"), n("combine limit", "us"))
		t.wire.Notes = append(t.wire.Notes, fmt.Sprintf("limit: the wire limit, the time of the dedup bytes at %g GB/s; no kernel is faster", link))
	}
	return t
}

// add adds a workload. Skew does not depend on the dtype, so its table gets the first dtype only.
func (t *routingTables) add(w *workloads.Workload) {
	p := w.Problem
	if len(t.wire.Rows) == 0 || t.wire.Rows[0][2].Text == string(p.Dispatch) {
		t.addSkew(w)
	}
	message := workloads.MessageBytes(p.Dispatch, p.Hidden, p.TopK)
	dispatch, combine := w.BytesDispatch(workloads.Dedup), w.BytesCombine(workloads.Dedup)
	row := []reports.Cell{
		reports.Str(w.Spec), reports.Int(p.Tokens), reports.Str(string(p.Dispatch)), reports.Int(message),
		megabytes(w.BytesDispatch(workloads.Direct)), megabytes(dispatch),
		megabytes(w.BytesCombine(workloads.Direct)), megabytes(combine),
	}
	if t.link > 0 {
		row = append(row, reports.Micros(workloads.WireLimit(dispatch, t.link)), reports.Micros(workloads.WireLimit(combine, t.link)))
	}
	t.wire.Add(row...)
	t.matrices = append(t.matrices, matrixTable(w, message, len(t.matrices)))
}

func (t *routingTables) addSkew(w *workloads.Workload) {
	s := w.Stats()
	t.skew.Add(reports.Str(w.Spec), reports.Int(w.Problem.Tokens), reports.Float(s.Gini, 3), reports.Float(s.CV, 3),
		reports.Float(s.MaxMeanExpert, 2), reports.Float(s.MaxMeanRank, 2), reports.Float(s.MaxMeanPair, 2),
		reports.Float(s.DistinctRanks, 2), reports.Percent(s.LocalShare), reports.Float(s.Entropy, 2),
		reports.Float(s.EffectiveExperts, 1), reports.Percent(s.Top20Share), reports.Int(int(s.Selections)),
		reports.Str(string(w.Class)))
}

func (t *routingTables) solved(spec string, s workloads.Solution) {
	note := fmt.Sprintf("%s: %s = %.4g gives an expected %s of %.4g", spec, s.Param, s.Value, s.Statistic, s.Expected)
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
		Title:   fmt.Sprintf("Dispatch of %s, %d tokens, %s: MB from rank (row) to rank, one message for each selected expert", w.Spec, p.Tokens, p.Dispatch),
		Columns: []reports.Column{reports.Words("from")},
	}
	for r := range p.Ranks {
		t.Columns = append(t.Columns, reports.Numbers(fmt.Sprintf("to %d", r), "MB"))
	}
	for r, row := range w.Messages(workloads.Direct).Bytes(message) {
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
