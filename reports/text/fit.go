package text

import (
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/epbench/epbench/reports"
)

// gap is the number of blanks between columns.
const gap = 2

// Word columns wrap down to wrapAt before any column is left out, and down to
// wrapMin before a table is cut into panels.
const (
	wrapAt  = 28
	wrapMin = 14
)

// grid is a table made of strings that are already wrapped.
type grid struct {
	columns []reports.Column
	header  []string
	rows    [][]string
	long    [][]string // header and rows before any wrapping
	heads   []string   // of each row, what left-out key columns say of it
}

// fit chooses columns and their widths; dropped names what is left out.
func fit(t reports.Table, width int) (g grid, dropped []string) {
	whole := t
	g = gridOf(t)
	if width == 0 {
		return g, nil
	}
	g.squeeze(width, wrapAt)
	for g.width() > width {
		order := g.expendable()
		if order == 0 {
			break
		}
		for i := len(t.Columns) - 1; i >= 0; i-- {
			if t.Columns[i].Drop == order {
				dropped = append(dropped, t.Columns[i].Name)
				t = without(t, i)
			}
		}
		g = gridOf(t)
		g.squeeze(width, wrapAt)
	}
	g.squeeze(width, wrapMin)
	slices.Reverse(dropped)
	g.heads, dropped = headings(whole, dropped)
	return g, dropped
}

// headings moves key columns whose values differ from what is dropped to the
// heads of rows.
func headings(t reports.Table, dropped []string) (heads, left []string) {
	parts, names := make([][]string, len(t.Rows)), []string(nil)
	for i, c := range t.Columns {
		if !c.Key || !differs(t, i) || !slices.Contains(dropped, c.Name) {
			continue
		}
		names = append(names, c.Name)
		for r, cells := range t.Rows {
			if text := clean(cells[i].Text); text != "" {
				parts[r] = append(parts[r], c.Name+" "+text)
			}
		}
	}
	for _, p := range parts {
		if len(p) == 0 && len(names) > 0 {
			p = []string{"no " + strings.Join(names, ", ")}
		}
		heads = append(heads, strings.Join(p, ", "))
	}
	return heads, slices.DeleteFunc(dropped, func(name string) bool { return slices.Contains(names, name) })
}

func differs(t reports.Table, col int) bool {
	return slices.ContainsFunc(t.Rows, func(r []reports.Cell) bool { return r[col].Text != t.Rows[0][col].Text })
}

func gridOf(t reports.Table) grid {
	g := grid{columns: t.Columns}
	units := slices.ContainsFunc(t.Columns, func(c reports.Column) bool { return c.Unit != "" })
	for _, c := range t.Columns {
		head := c.Name
		if units {
			head += "\n" + c.Unit
		}
		g.header = append(g.header, head)
	}
	for _, cells := range t.Rows {
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = clean(c.Text)
		}
		g.rows = append(g.rows, row)
	}
	for _, cells := range slices.Insert(slices.Clone(g.rows), 0, g.header) {
		g.long = append(g.long, slices.Clone(cells))
	}
	return g
}

// without is t less one column.
func without(t reports.Table, col int) reports.Table {
	t.Columns = slices.Delete(slices.Clone(t.Columns), col, col+1)
	rows := make([][]reports.Cell, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = slices.Delete(slices.Clone(r), col, col+1)
	}
	t.Rows = rows
	return t
}

// expendable is the Drop of the columns that go first, 0 when all must stay.
func (g grid) expendable() int {
	order := 0
	for _, c := range g.columns {
		order = max(order, c.Drop)
	}
	return order
}

func (g grid) columnWidth(i int) int {
	w := linesWidth(g.header[i])
	for _, r := range g.rows {
		w = max(w, linesWidth(r[i]))
	}
	return w
}

func (g grid) width() int {
	total := -gap
	for i := range g.columns {
		total += g.columnWidth(i) + gap
	}
	return total
}

// squeeze wraps the widest word columns, none below least, until the grid
// fits or nothing more can give.
func (g grid) squeeze(width, least int) {
	for over := g.width() - width; over > 0; over = g.width() - width {
		widest, size := -1, least
		for i, c := range g.columns {
			if w := g.columnWidth(i); c.Align == reports.Left && w > size {
				widest, size = i, w
			}
		}
		if widest < 0 {
			return
		}
		g.wrapColumn(widest, max(least, size-over))
	}
}

func (g grid) wrapColumn(col, width int) {
	g.header[col] = strings.Join(wrap(g.long[0][col], width), "\n")
	for i, r := range g.rows {
		r[col] = strings.Join(wrap(g.long[i+1][col], width), "\n")
	}
}

// panels cuts a grid that is still too wide into several, each beginning with
// the word columns at its left.
func (g grid) panels(width int) []grid {
	if width == 0 || g.width() <= width {
		return []grid{g}
	}
	lead := 0
	for lead < len(g.columns) && g.columns[lead].Align == reports.Left {
		lead++
	}
	if lead == len(g.columns) {
		return []grid{g}
	}
	var out []grid
	for from := lead; from < len(g.columns); {
		to := from + 1
		for to < len(g.columns) && g.pick(lead, from, to+1).width() <= width {
			to++
		}
		out = append(out, g.pick(lead, from, to))
		from = to
	}
	return out
}

// pick is the grid of columns [0, lead) and [from, to).
func (g grid) pick(lead, from, to int) grid {
	out := grid{
		columns: slices.Concat(g.columns[:lead], g.columns[from:to]),
		header:  slices.Concat(g.header[:lead], g.header[from:to]),
		heads:   g.heads,
	}
	for _, r := range g.rows {
		out.rows = append(out.rows, slices.Concat(r[:lead], r[from:to]))
	}
	return out
}

func linesWidth(s string) int {
	w := 0
	for line := range strings.SplitSeq(s, "\n") {
		w = max(w, twwidth.Width(line))
	}
	return w
}

// wrap breaks s into lines of at most width, after a blank or one of the
// separators of config keys and problem keys, inside a word when there is
// none. No line is empty but that of an empty text: the table library leaves
// empty lines out.
func wrap(s string, width int) []string {
	var out []string
	for part := range strings.SplitSeq(s, "\n") {
		out = append(out, wrapLine([]rune(part), width)...)
	}
	return out
}

func wrapLine(line []rune, width int) []string {
	var out []string
	for twwidth.Width(string(line)) > width {
		at, w := 0, 0
		for i, r := range line {
			if w += twwidth.Width(string(r)); w > width {
				if at == 0 {
					at = max(i, 1)
				}
				break
			}
			if strings.ContainsRune(" ,:/+;", r) {
				at = i + 1
			}
		}
		if part := strings.TrimRight(string(line[:at]), " "); part != "" {
			out = append(out, part)
		}
		line = []rune(strings.TrimLeft(string(line[at:]), " "))
	}
	if len(line) > 0 || len(out) == 0 {
		out = append(out, string(line))
	}
	return out
}

// wrapped is a paragraph that ends with a line feed.
func wrapped(s string, width int) string {
	if width == 0 {
		return s + "\n"
	}
	return strings.Join(wrapWords(s, width), "\n") + "\n"
}

func wrapWords(s string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case twwidth.Width(line)+1+twwidth.Width(word) <= width:
			line += " " + word
		default:
			out = append(out, line)
			line = word
		}
		if twwidth.Width(line) > width {
			parts := wrap(line, width)
			out = append(out, parts[:len(parts)-1]...)
			line = parts[len(parts)-1]
		}
	}
	return append(out, line)
}
