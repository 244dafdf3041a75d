package predict

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// Note is printed below every table with predictions.
const Note = "predicted: computed by a model of links and of kernels recorded on 2 and 4 ranks; nothing was measured"

// PlanTable lists the predictions of a plan.
func PlanTable(points []Point) reports.Table {
	t := reports.Table{Name: "predicted", Title: "Predicted times of one call, the slowest rank's", Columns: []reports.Column{
		reports.Words("model").Keyed(), reports.Words("op").Keyed(), reports.Words("dtype"), reports.Words("precision").Dropped(4), reports.Words("routing").Keyed(),
		reports.Numbers("tokens", "").Dropped(3).Keyed(), reports.Numbers("ranks", "").Leading(), reports.Numbers("hosts", "").Dropped(2).Leading(),
		reports.Numbers("predicted", "us"), reports.Words("limit"), reports.Words("transport"),
		reports.Numbers("predicted fixed", "us").Dropped(1), reports.Numbers("predicted latency", "us").Dropped(1), reports.Numbers("predicted link", "us").Dropped(1),
		reports.Numbers("predicted memory", "us").Dropped(1), reports.Numbers("predicted network", "us").Dropped(1),
	}}
	replicas, sampled := false, false
	for _, p := range points {
		s := p.Shape
		replicas, sampled = replicas || s.Experts%s.Ranks != 0, sampled || p.Drawn < s.Tokens
		t.Add(reports.Str(p.Model), reports.Str(string(p.Problem.Op)), reports.Str(string(p.Problem.Dispatch)), reports.Str(p.Problem.Precision.String()), reports.Str(p.Routing.Spec()),
			reports.Int(s.Tokens), reports.Int(s.Ranks), reports.Int(s.Ranks/s.PerHost), reports.Micros(p.Seconds), reports.Str(string(p.Limit)), reports.Str(string(p.Transport)),
			reports.Micros(p.Fixed), reports.Micros(p.Latency), reports.Micros(p.Link), reports.Micros(p.Memory), reports.Micros(p.Network))
	}
	t.Note(Note, "limit: the largest part of the time; transport: how tokens travel. With the value rank, a token is sent once to each distinct rank; with host, once to each distinct host, which forwards it. The table has the faster of these two. With select, a combine of full precision sends one message for each selection")
	if replicas {
		t.Note("if the number of experts is not a multiple of the number of ranks, some experts have replicas, so that all ranks hold equally many; the tokens of an expert go to its replicas in turn")
	}
	if sampled {
		t.Note("large cases: fewer tokens were drawn for each rank and the counts were scaled up; this makes the busiest of 2,048 ranks seem about 3 % busier than it is")
	}
	return t
}

// CompareTable lists published figures with predictions.
func CompareTable(all []ComparedFigure) reports.Table {
	t := reports.Table{Name: "compare", Title: "Published figures and the model's predictions", Columns: []reports.Column{
		reports.Words("library").Keyed(), reports.Words("op"), reports.Numbers("ranks", "").Leading(), reports.Numbers("tokens", "").Leading(), reports.Words("dtype").Dropped(2),
		reports.Numbers("published", "us"), reports.Numbers("predicted", "us"), reports.Numbers("error of predicted", "%"), reports.Words("limit"), reports.Words("source").Dropped(1),
	}}
	var errs []float64
	for _, b := range all {
		t.Add(reports.Str(b.Library), reports.Str(string(b.Op)), reports.Int(b.Ranks), reports.Int(b.Tokens), reports.Str(string(b.DType)),
			reports.Micros(b.Seconds), reports.Micros(b.Predicted.Seconds), reports.Percent(b.Error()), reports.Str(string(b.Predicted.Limit)), reports.Str(b.Source+" ("+b.Date+")"))
		errs = append(errs, math.Abs(b.Error()))
		if b.Impossible() {
			t.Warn("%s %s on %d ranks: the published time is %.0f us, but its bytes alone take %.0f us on %s, so this link must be faster than the model file says", b.Library, b.Op, b.Ranks, b.Seconds*1e6, b.Predicted.Network*1e6, b.Network)
		}
	}
	slices.Sort(errs)
	if len(errs) > 0 {
		t.Note(fmt.Sprintf("error in %d rows: median %.0f %%, largest %.0f %%", len(errs), 100*stat.Quantile(0.5, stat.Empirical, errs, nil), 100*errs[len(errs)-1]))
	}
	t.Note(Note, "the model assumes epbench's kernels and the full speed of the network. Most libraries reach less, so most predicted times are too short (an error below 0)",
		"published: if the source gives a bandwidth, the time is the bytes that the source counts, divided by the bandwidth")
	return t
}

// FitTable lists the errors of times that a fit left out.
func FitTable(f *model.File) reports.Table {
	t := reports.Table{Name: "fit", Title: "Errors of predictions: each time is predicted by a fit that leaves out all times with the same " + f.LeftOutBy, Columns: []reports.Column{
		reports.Words("design").Keyed(), reports.Words("op").Keyed(), reports.Words("dtype"), reports.Words("precision"), reports.Numbers("times", ""),
		reports.Numbers("parts left out", ""), reports.Numbers("times left out", ""), reports.Numbers("median error", "%"), reports.Numbers("p95 error", "%"), reports.Numbers("worst error", "%"),
		reports.Numbers("link share", "%").Dropped(1),
	}}
	add := func(design, op, dtype, precision string, rows int, e model.Error, share reports.Cell) {
		t.Add(reports.Str(design), reports.Str(op), reports.Str(dtype), reports.Str(precision), reports.Int(rows), reports.Int(e.Parts), reports.Int(e.Rows),
			errorCell(e, e.Median), errorCell(e, e.P95), errorCell(e, e.Worst), share)
	}
	total := 0
	for _, g := range f.Families {
		total += g.Rows
		add(g.Design, string(g.Op), string(g.Dispatch), g.Precision, g.Rows, g.LeftOut, reports.Percent(g.Costs.LinkShare))
	}
	if f.LeftOut != nil {
		add("all", "", "", "", total, *f.LeftOut, reports.None())
	}
	t.Note("error: |predicted/recorded - 1|; link share: the share of the link's bandwidth that the kernels reach")
	return t
}

func errorCell(e model.Error, v float64) reports.Cell {
	if e.Rows == 0 {
		return reports.None()
	}
	return reports.Percent(v)
}

// WorstTable lists the n recorded times with the largest errors.
func WorstTable(residuals []Residual, n int) reports.Table {
	sorted := slices.Clone(residuals)
	slices.SortStableFunc(sorted, func(a, b Residual) int {
		x, y := math.Abs(a.Error()), math.Abs(b.Error())
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	t := reports.Table{Name: "worst", Title: "Recorded times with the largest errors", Columns: []reports.Column{
		reports.Words("run"), reports.Words("design"), reports.Words("op"), reports.Words("dtype"), reports.Words("precision"), reports.Numbers("ranks", "").Leading(), reports.Numbers("hidden", ""),
		reports.Numbers("experts", ""), reports.Numbers("topk", ""), reports.Numbers("tokens", "").Leading(), reports.Words("routing").Leading(),
		reports.Numbers("recorded", "us"), reports.Numbers("predicted", "us"), reports.Numbers("error of predicted", "%"),
	}}
	for _, m := range sorted[:min(n, len(sorted))] {
		p := m.Problem
		t.Add(reports.Str(m.Run), reports.Str(m.Design), reports.Str(string(p.Op)), reports.Str(string(p.Dispatch)), reports.Str(p.Precision.String()), reports.Int(p.Ranks), reports.Int(p.Hidden),
			reports.Int(p.Experts), reports.Int(p.TopK), reports.Int(p.Tokens), reports.Str(m.Routing), reports.Micros(m.Seconds), reports.Micros(m.Predicted), reports.Percent(m.Error()))
	}
	return t
}

// Marked returns t with "predicted" in the title and in every row.
func Marked(t reports.Table) reports.Table {
	t.Title = "Predicted, not measured. " + t.Title
	t.Columns = append([]reports.Column{reports.Words("times")}, t.Columns...)
	for i, row := range t.Rows {
		t.Rows[i] = append([]reports.Cell{reports.Str(ep.Predicted)}, row...)
	}
	t.Note(Note)
	return t
}
