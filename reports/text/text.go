// Package text prints tables on terminals.
package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwarp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/epbench/epbench/reports"
)

// proseWidth limits titles, notes and warnings if tables may have any width.
const proseWidth = 80

// Renderer returns a renderer for terminals of `width` columns. With 0, tables have any width, and titles, notes and
// warnings have 80 columns. Renderer takes these steps until a table fits:
//
//  1. wrap columns of words
//  2. move columns with a single value below the table
//  3. leave out columns, and list their names
//  4. print the remaining columns in several panels, one below the other
func Renderer(width int) reports.Renderer {
	// Without this call, the width of some characters would depend on the locale.
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
	say := func(line string) {
		for _, part := range Wrap(line, cmp.Or(width, proseWidth)) {
			b.WriteString(part + "\n")
		}
	}
	if t.Title != "" {
		say(t.Title)
	}
	g := newGrid(t)
	same := g.fold(width)
	dropped := g.fit(width)
	absent := append(g.empty(), dropped...)
	heads, dropped := g.heads(dropped)
	spelled, dropped := g.spellings(dropped)
	for i, columns := range g.panels(width) {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := g.print(&b, columns, heads, say); err != nil {
			return err
		}
	}
	if len(same) > 0 {
		say("in every row: " + strings.Join(same, ", "))
	}
	for _, line := range spelled {
		say(line)
	}
	if len(dropped) > 0 && len(t.Rows) > 0 {
		say("not shown at this width: " + strings.Join(dropped, ", "))
	}
	for _, n := range t.Notes {
		if n := withoutAbsent(n, absent); n != "" {
			say(n)
		}
	}
	for _, n := range t.Warnings {
		say("warning: " + n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// withoutAbsent removes from a note the parts that explain absent columns. "gain: over the default" is such a part.
func withoutAbsent(note string, absent []string) string {
	var kept []string
	keep := true
	for part := range strings.SplitSeq(note, "; ") {
		if names, _, explains := strings.Cut(part, ": "); explains {
			shown := func(name string) bool { return !slices.Contains(absent, name) }
			keep = slices.ContainsFunc(strings.Split(names, ", "), shown)
		}
		if keep {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "; ")
}

func (g *grid) print(b *strings.Builder, columns []int, heads []string, say func(string)) error {
	from := 0
	for to := 1; to <= len(g.rows); to++ {
		if to < len(g.rows) && (heads == nil || heads[to] == heads[from]) {
			continue
		}
		lines, err := g.draw(columns, g.rows[from:to])
		if err != nil {
			return err
		}
		header := 1 + slices.IndexFunc(lines, func(line string) bool { return strings.Trim(line, plain.Symbols.Row()) == "\n" })
		if from == 0 {
			b.WriteString(strings.Join(lines[:header], ""))
		}
		if heads != nil {
			b.WriteByte('\n')
			say(heads[from] + ":")
		}
		b.WriteString(strings.Join(lines[header:], ""))
		from = to
	}
	return nil
}

func (g *grid) draw(columns []int, rows [][]string) ([]string, error) {
	widths := tw.Mapper[int, int]{}
	cell := tw.CellConfig{Formatting: tw.CellFormatting{AutoWrap: tw.WrapNormal, AutoFormat: tw.Off}}
	for i, c := range columns {
		pad, align := tw.Padding{Right: strings.Repeat(" ", gap), Overwrite: true}, tw.AlignLeft
		if i == len(columns)-1 {
			pad.Right = ""
		}
		if g.columns[c].Align == reports.Right {
			align = tw.AlignRight
		}
		widths[i] = g.widths[c] + len(pad.Right)
		cell.Padding.PerColumn = append(cell.Padding.PerColumn, pad)
		cell.Alignment.PerColumn = append(cell.Alignment.PerColumn, align)
	}
	var b strings.Builder
	out := tablewriter.NewTable(&b, tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell}),
		tablewriter.WithColumnWidths(widths), tablewriter.WithRenderer(renderer.NewBlueprint(plain)))
	header := g.pick(columns, g.header)
	if !slices.ContainsFunc(columns, func(c int) bool { return g.columns[c].Unit != "" }) {
		for i := range header {
			header[i], _, _ = strings.Cut(header[i], "\n")
		}
	}
	out.Header(header)
	for _, r := range rows {
		if err := out.Append(g.pick(columns, r)); err != nil {
			return nil, err
		}
	}
	if err := out.Render(); err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n")+"\n")
	}
	return lines, nil
}

func (g *grid) pick(columns []int, cells []string) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = breakWords(cells[c], g.widths[c])
	}
	return out
}

var plain = tw.Rendition{
	Borders: tw.BorderNone,
	Symbols: tw.NewSymbols(tw.StyleLight),
	Settings: tw.Settings{
		Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
		Lines:      tw.Lines{ShowHeaderLine: tw.On},
	},
}

// Wrap breaks a text into lines of at most width columns; 0 means unlimited.
func Wrap(s string, width int) []string {
	if s = clean(s); width == 0 {
		return []string{s}
	}
	lines, _ := twwarp.WrapString(breakWords(s, width), width)
	return lines
}

func breakWords(s string, width int) string {
	if twwidth.Width(s) <= width {
		return s
	}
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		var words []string
		for _, word := range strings.Fields(line) {
			for twwidth.Width(word) > width {
				at := cut(word, width)
				words, word = append(words, word[:at]), word[at:]
			}
			words = append(words, word)
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "\n")
}

func cut(word string, width int) int {
	at, w := 0, 0
	for i, r := range word {
		if w += twwidth.Width(string(r)); w > width {
			if at == 0 {
				at = max(i, utf8.RuneLen(r))
			}
			break
		}
		if strings.ContainsRune(",:/+;", r) {
			at = i + 1
		}
	}
	return at
}

// clean replaces control characters, because they could move the cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
