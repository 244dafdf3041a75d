// Package text prints tables on terminals. It is the only place that knows
// which table library does the drawing.
package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/epbench/epbench/reports"
)

// Renderer prints tables that fit a terminal of width columns; 0 means any
// width. Cells are wrapped first, then columns left out (and named below the
// table), and what still does not fit is continued in further panels.
func Renderer(width int) reports.Renderer {
	// The library would guess from the locale; the same table must have the
	// same bytes everywhere.
	twwidth.SetEastAsian(false)
	return func(w io.Writer, tables ...reports.Table) error {
		for i, t := range tables {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := print(w, t, width); err != nil {
				return err
			}
		}
		return nil
	}
}

func print(w io.Writer, t reports.Table, width int) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(wrapped(clean(t.Title), width))
	}
	grid, dropped := fit(t, width)
	for i, panel := range grid.panels(width) {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := draw(&b, panel, width); err != nil {
			return err
		}
	}
	if len(dropped) > 0 {
		b.WriteString(wrapped("not shown at this width: "+strings.Join(dropped, ", "), width))
	}
	for _, n := range t.Notes {
		b.WriteString(wrapped(clean(n), width))
	}
	for _, n := range t.Warnings {
		b.WriteString(wrapped("warning: "+clean(n), width))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// draw hands finished cells to the table library; all wrapping is done.
func draw(w io.Writer, g grid, width int) error {
	align := make([]tw.Align, len(g.columns))
	for i, c := range g.columns {
		align[i] = tw.AlignLeft
		if c.Align == reports.Right {
			align[i] = tw.AlignRight
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: align},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: strings.Repeat(" ", gap), Overwrite: true}},
	}
	var lines trimmer
	out := tablewriter.NewTable(&lines,
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell}),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithRenderer(renderer.NewBlueprint(plain)))
	out.Header(g.header)
	if err := out.Bulk(g.rows); err != nil {
		return err
	}
	if err := out.Render(); err != nil {
		return err
	}
	_, err := io.WriteString(w, g.headed(lines.String(), width))
	return err
}

// headed puts the heads of rows between the lines of a drawn grid. The table
// library draws nothing of a grid without columns, and no row of blanks.
func (g grid) headed(drawn string, width int) string {
	if !slices.ContainsFunc(g.heads, func(head string) bool { return head != "" }) {
		return drawn
	}
	lines, at := strings.SplitAfter(drawn, "\n"), 1+height(g.header) // the rule
	all := at
	for _, r := range g.rows {
		all += height(r)
	}
	if all != len(lines)-1 {
		return drawn
	}
	var b strings.Builder
	b.WriteString(strings.Join(lines[:at], ""))
	for i, r := range g.rows {
		if head := g.heads[i]; i == 0 || head != g.heads[i-1] {
			b.WriteString("\n" + wrapped(head+":", width))
		}
		b.WriteString(strings.Join(lines[at:at+height(r)], ""))
		at += height(r)
	}
	return b.String()
}

// height is the number of lines that cells take beside each other.
func height(cells []string) int {
	n := 1
	for _, c := range cells {
		n = max(n, 1+strings.Count(c, "\n"))
	}
	return n
}

// plain is a table without borders and with one rule under its header.
var plain = tw.Rendition{
	Borders: tw.BorderNone,
	Symbols: tw.NewSymbols(tw.StyleLight),
	Settings: tw.Settings{
		Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
		Lines:      tw.Lines{ShowHeaderLine: tw.On},
	},
}

// trimmer drops the last column's padding from lines and from the rule.
type trimmer struct{ strings.Builder }

func (t *trimmer) String() string {
	lines := strings.Split(t.Builder.String(), "\n")
	rule := strings.Repeat(plain.Symbols.Row(), gap)
	for i, l := range lines {
		if strings.Trim(l, plain.Symbols.Row()) == "" {
			l = strings.TrimSuffix(l, rule)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// clean keeps text that came out of files and foreign processes from moving
// the cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
