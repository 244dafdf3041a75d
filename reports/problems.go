package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

type problemField struct {
	column Column
	cell   func(*Case) Cell
	phrase string // with %s for the value
	usual  string // value that sentences leave out
}

var problemFields = []problemField{
	{Words("op"), func(c *Case) Cell { return Str(string(c.Problem.Op)) }, "%s", ""},
	{Words("mode"), func(c *Case) Cell { return Str(string(c.Problem.Mode)) }, "%s mode", ""},
	{Words("dtype"), func(c *Case) Cell { return Str(string(c.Problem.Dispatch)) }, "%s dispatch", ""},
	{Numbers("ranks", ""), func(c *Case) Cell { return Int(c.Problem.Ranks) }, "%s ranks", ""},
	{Numbers("nodes", ""), func(c *Case) Cell { return Int(c.Problem.Nodes) }, "%s nodes", "1"},
	{Numbers("hidden", ""), func(c *Case) Cell { return Int(c.Problem.Hidden) }, "hidden %s", ""},
	{Numbers("experts", ""), func(c *Case) Cell { return Int(c.Problem.Experts) }, "%s experts", ""},
	{Numbers("top-k", ""), func(c *Case) Cell { return Int(c.Problem.TopK) }, "top-%s", ""},
	{Words("shared expert"), func(c *Case) Cell { return Bool(c.Problem.SharedExpert) }, "shared expert: %s", "no"},
	{Words("skip a2a"), func(c *Case) Cell { return Bool(c.Problem.SkipA2A) }, "skip a2a: %s", "no"},
	{Words("precision"), func(c *Case) Cell { return Str(c.Problem.Precision.String()) }, "%s precision", "full"},
	{Words("objective"), func(c *Case) Cell { return Str(c.Problem.Objective.String()) }, "objective %s", "alone"},
	{Words("beside"), func(c *Case) Cell { return Str(c.Problem.Beside) }, "beside %s", ""},
	{Words("layout"), func(c *Case) Cell { return Str(c.Problem.Layout.String()) }, "layout %s", "expert"},
	{Words("routing"), func(c *Case) Cell { return Str(c.Routing) }, "%s routing", ""},
	{Numbers("tokens", ""), func(c *Case) Cell { return Int(c.Problem.Tokens) }, "%s tokens a rank", ""},
	{Numbers("max tokens", ""), func(c *Case) Cell { return Int(c.Problem.MaxTokens) }, "room for %s tokens a rank", ""},
	{Numbers("seed", ""), func(c *Case) Cell { return Cell{Text: fmt.Sprint(c.Seed), Value: c.Seed} }, "seed %s", ""},
}

// ProblemColumns makes columns of the fields in which cases differ, and one sentence of the other fields.
type ProblemColumns struct {
	Columns []Column
	Shared  string // "hidden 7168, 256 experts, top-8, ..."
	fields  []problemField
}

// ColumnsFor decides which fields of the cases become columns.
func ColumnsFor(cases []*Case) ProblemColumns {
	var out ProblemColumns
	var shared []string
	for _, f := range problemFields {
		always := f.column.Name == "op" || f.column.Name == "tokens" || f.column.Name == "routing"
		switch {
		case always || f.varies(cases):
			out.Columns = append(out.Columns, f.column.Leading())
			out.fields = append(out.fields, f)
		case len(cases) > 0 && !f.isUsual(cases[0]):
			shared = append(shared, f.say(f.cell(cases[0]).Text))
		}
	}
	out.Shared = strings.Join(shared, ", ")
	return out
}

func (p ProblemColumns) Cells(c *Case) []Cell {
	out := make([]Cell, len(p.fields))
	for i, f := range p.fields {
		out[i] = f.cell(c)
	}
	return out
}

func (f problemField) varies(cases []*Case) bool {
	if f.column.Name == "max tokens" && !slices.ContainsFunc(cases, (*Case).hasSpareTokens) {
		return false
	}
	return slices.ContainsFunc(cases, func(c *Case) bool { return f.cell(c).Text != f.cell(cases[0]).Text })
}

func (c *Case) hasSpareTokens() bool { return c.Problem.MaxTokens != max(c.Problem.Tokens, 1) }

func (f problemField) isUsual(c *Case) bool {
	return f.cell(c).Text == f.usual || f.column.Name == "max tokens" && !c.hasSpareTokens()
}

// Title returns a one-line name of the case.
func (c *Case) Title() string { return Title(c.Problem, c.Routing) }

// Title returns a one-line name of a problem under a routing.
func Title(p ep.Problem, routing string) string {
	title := OpTitle(p.Op, p.Precision) + ", " + ep.Tokens(p.Tokens) + ", " + routing
	if kind, _, _ := strings.Cut(p.Beside, ":"); kind != "" {
		title += ", beside " + kind
		if p.Objective == ep.Alone {
			title += " (alone)"
		}
	}
	return title
}

// OpTitle returns the name of an op, with the precision if it is reduced.
func OpTitle(op ep.Op, p ep.Precision) string {
	if p == ep.Reduced {
		return string(op) + " (reduced precision)"
	}
	return string(op)
}
