package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// keyColumns returns the columns of a row's key. A narrow terminal shows fewer.
func keyColumns() []reports.Column {
	n := func(name string, order int) reports.Column { return reports.Numbers(name, "").Dropped(order).Keyed() }
	w := func(name string, order int) reports.Column { return reports.Words(name).Dropped(order).Keyed() }
	return []reports.Column{
		reports.Words("op"), w("mode", 17), w("dtype", 11), n("ranks", 13), n("nodes", 18), w("model", 12),
		n("hidden", 14), n("experts", 15), n("topk", 16), w("extras", 12), reports.Words("routing"),
	}
}

func keyCells(k table.Key) []reports.Cell {
	var extras []string
	if k.SharedExpert {
		extras = append(extras, "shared-expert")
	}
	if k.SkipA2A {
		extras = append(extras, "skip-a2a")
	}
	if k.Precision == ep.Reduced {
		extras = append(extras, "reduced")
	}
	if k.Objective == ep.BesideProduct {
		extras = append(extras, "beside")
	}
	if k.Layout != ep.LayoutExpert {
		extras = append(extras, k.Layout.String())
	}
	return []reports.Cell{
		reports.Str(string(k.Op)), reports.Str(string(k.Mode)), reports.Str(string(k.Dispatch)), reports.Int(k.Ranks),
		reports.Int(k.Nodes), reports.Str(modelOf(k)), reports.Int(k.Hidden), reports.Int(k.Experts), reports.Int(k.TopK),
		reports.Str(strings.Join(extras, " ")), reports.Str(string(k.Routing)),
	}
}

func modelOf(k table.Key) string {
	var out []string
	for _, p := range workloads.Presets() {
		if p.HiddenOf(k.Op) == k.Hidden && p.Experts == k.Experts && p.TopK == k.TopK {
			out = append(out, p.Name)
		}
	}
	return strings.Join(out, " ")
}

func spanText(lo, hi int) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d-%d", lo, hi)
}

func configCells(h table.Header, r *table.Row) []reports.Cell {
	if r == nil {
		return []reports.Cell{reports.None(), reports.None()}
	}
	cells := spelled(h, r.Key, r.Hi, r.Config)
	if r.Default {
		cells[1] = reports.Str("default")
	}
	return cells
}

// spelled returns the id of a config and its difference from the default. The zero config means the default.
func spelled(h table.Header, k table.Key, tokens int, c ep.Config) []reports.Cell {
	dflt, err := kernels.Default(knownKernels(h.Machine.Backend), h.Machine, k.Problem(tokens), h.MaxSMs)
	switch {
	case !c.IsDefault():
		return reports.ConfigCells(c, dflt)
	case err != nil:
		return []reports.Cell{reports.None(), reports.Str("default")}
	}
	return []reports.Cell{reports.Str(dflt.ID()), {Text: "default", Value: "default"}}
}

func gainColumns() []reports.Column {
	return []reports.Column{reports.Numbers("gain", "x"), reports.Numbers("low", "x"), reports.Numbers("high", "x")}
}

func gainCells(h table.Header, r *table.Row) []reports.Cell {
	if r == nil {
		return []reports.Cell{reports.None(), reports.None(), reports.None()}
	}
	low, high := h.GainInterval(*r)
	return reports.GainCells(record.Interval{Mid: r.Evidence.Gain, Low: low, High: high})
}

func timedColumn(drop int) reports.Column { return reports.Numbers("timed at", "").Dropped(drop) }

// timedCell returns no text if the row was timed at `asked` tokens, because another column shows this token count.
func timedCell(r *table.Row, asked int) reports.Cell {
	if r == nil {
		return reports.Cell{}
	}
	at, known := r.Evidence.At()
	switch {
	case !known:
		return reports.Cell{}
	case at == asked:
		return reports.Cell{Value: at}
	}
	return reports.Int(at)
}

// timedNote explains the column "timed at" if it has a value. `which` is a phrase such as "the gain was".
func timedNote(t *reports.Table, rows []*table.Row, which string) {
	at := slices.IndexFunc(t.Columns, func(c reports.Column) bool { return c.Name == "timed at" })
	if !slices.ContainsFunc(t.Rows, func(r []reports.Cell) bool { return r[at].Text != "" && r[at].Text != reports.None().Text }) {
		return
	}
	unknown := slices.ContainsFunc(rows, func(r *table.Row) bool { _, ok := r.Evidence.At(); return !ok && len(r.Evidence.Tokens) > 1 })
	note := "timed at: the token count at which " + which + " measured; if there are several, the one with the smallest gain"
	if unknown {
		note += "; older rows do not record it"
	}
	t.Note(note)
}

func triedText(e table.Evidence) string {
	if e.Legal == 0 {
		return fmt.Sprintf("%d tried", e.Tried)
	}
	return fmt.Sprintf("%d of %d tried", e.Tried, e.Legal)
}

func triedColumns() []reports.Column {
	return []reports.Column{reports.Numbers("tried", "").Dropped(14), reports.Numbers("legal", "").Dropped(14)}
}

func triedCells(r *table.Row) []reports.Cell {
	cells := []reports.Cell{reports.None(), reports.None()}
	if r != nil {
		cells[0] = reports.Int(r.Evidence.Tried)
	}
	if r != nil && r.Evidence.Legal > 0 {
		cells[1] = reports.Int(r.Evidence.Legal)
	}
	return cells
}

func evidenceText(r *table.Row) string {
	if r == nil {
		return ""
	}
	e := r.Evidence
	tokens := strings.Trim(fmt.Sprint(e.Tokens), "[]") + " tokens"
	if at, ok := e.At(); ok && len(e.Tokens) > 1 {
		tokens += fmt.Sprintf(" (times: at %d)", at)
	}
	if len(e.Between) > 0 {
		tokens += fmt.Sprintf(" (no search at %s)", strings.Trim(fmt.Sprint(e.Between), "[]"))
	}
	text := fmt.Sprintf("measured at %s, %s, %s, %s", tokens, roundsText(e), triedText(e), ep.Count(e.Ties, "tie"))
	if !e.Complete {
		text += ", space not exhausted"
	}
	if r.Key.Routing == ep.AllRoutings {
		text += fmt.Sprintf(", regret %.1f %% over %s", 100*e.Regret, strings.Join(e.Routings, " "))
	}
	return text
}

func roundsText(e table.Evidence) string {
	if e.Sessions == 0 {
		return fmt.Sprintf("%d rounds", e.Rounds)
	}
	return fmt.Sprintf("%d rounds of %d sessions", e.Rounds, e.Sessions)
}

// evidenceCell says "none" to people and "" to programs if there is no row.
func evidenceCell(r *table.Row) reports.Cell {
	if r == nil {
		return reports.Cell{Text: "none", Value: ""}
	}
	return reports.Str(evidenceText(r))
}

// gathered removes empty columns, and moves key columns with one value into a note.
func gathered(t reports.Table) reports.Table {
	var shared []string
	for i := len(t.Columns) - 1; i >= 0 && len(t.Rows) > 0; i-- {
		c, text := t.Columns[i], t.Rows[0][i].Text
		if !c.Key && text != "" || slices.ContainsFunc(t.Rows, func(r []reports.Cell) bool { return r[i].Text != text }) {
			continue
		}
		if text != "" && text != reports.None().Text {
			shared = append(shared, c.Name+" "+text)
		}
		t.Columns = slices.Delete(slices.Clone(t.Columns), i, i+1)
		for j, r := range t.Rows {
			t.Rows[j] = slices.Delete(slices.Clone(r), i, i+1)
		}
	}
	if slices.Reverse(shared); len(shared) > 0 {
		t.Notes = append([]string{"in every row: " + strings.Join(shared, ", ")}, t.Notes...)
	}
	return t
}

// sideColumns returns the columns for one of two compared rows. Its argument names the table, such as "old".
func sideColumns(side string) []reports.Column {
	return []reports.Column{reports.Words(side), reports.Words("config " + side).Dropped(10).WithIDs(side), reports.Numbers("gain "+side, "x"),
		reports.Numbers("low "+side, "x").Dropped(4), reports.Numbers("high "+side, "x").Dropped(4)}
}

func sideCells(h table.Header, r *table.Row) []reports.Cell {
	return append(configCells(h, r), gainCells(h, r)...)
}
