package text

import (
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/epbench/epbench/reports"
)

const gap = 2

// The method fit shrinks columns of words, but first only to wrapAt. If the table is still too wide, fit leaves out
// columns (see reports.Column.Drop). If that does not suffice, it shrinks columns of words to wrapMin.
const (
	wrapAt  = 28
	wrapMin = 14
)

type grid struct {
	columns []reports.Column
	header  []string
	rows    [][]string
	shown   []int // indexes of columns
	widths  []int // of each column
}

func newGrid(t reports.Table) *grid {
	g := &grid{columns: t.Columns}
	units := slices.ContainsFunc(t.Columns, func(c reports.Column) bool { return c.Unit != "" })
	for i, c := range t.Columns {
		head := c.Name
		if units {
			head += "\n" + c.Unit
		}
		g.header, g.shown = append(g.header, head), append(g.shown, i)
	}
	for _, cells := range t.Rows {
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = clean(c.Text)
		}
		g.rows = append(g.rows, row)
	}
	g.unsqueeze()
	return g
}

func (g *grid) unsqueeze() {
	g.widths = make([]int, len(g.columns))
	for i, c := range g.columns {
		g.widths[i] = max(twwidth.Width(c.Name), twwidth.Width(c.Unit))
		for _, r := range g.rows {
			g.widths[i] = max(g.widths[i], twwidth.Width(r[i]))
		}
	}
}

func (g *grid) total(columns []int) int {
	sum := -gap
	for _, c := range columns {
		sum += g.widths[c] + gap
	}
	return sum
}

// fold hides columns whose rows all have the same value, if the grid is too wide.
func (g *grid) fold(width int) (same []string) {
	if g.squeeze(width, wrapAt); width == 0 || len(g.rows) < 2 || g.total(g.shown) <= width {
		g.unsqueeze()
		return nil
	}
	g.shown = slices.DeleteFunc(g.shown, func(c int) bool {
		value := g.rows[0][c]
		differs := func(r []string) bool { return r[c] != value }
		if c == 0 || g.columns[c].IDs != "" || slices.ContainsFunc(g.rows, differs) {
			return false
		}
		if value != "" && value != reports.None().Text {
			same = append(same, g.columns[c].Name+" "+value+g.columns[c].Unit)
		}
		return true
	})
	g.unsqueeze()
	return same
}

func (g *grid) empty() (names []string) {
	for i, c := range g.columns {
		has := func(r []string) bool { return r[i] != "" && r[i] != reports.None().Text }
		if len(g.rows) > 0 && !slices.Contains(g.shown, i) && !slices.ContainsFunc(g.rows, has) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (g *grid) fit(width int) (dropped []string) {
	if width == 0 {
		return nil
	}
	g.squeeze(width, wrapAt)
	for g.total(g.shown) > width {
		order := 0
		for _, c := range g.shown {
			order = max(order, g.columns[c].Drop)
		}
		if order == 0 {
			break
		}
		var names []string
		g.shown = slices.DeleteFunc(g.shown, func(c int) bool {
			if g.columns[c].Drop == order {
				names = append(names, g.columns[c].Name)
			}
			return g.columns[c].Drop == order
		})
		dropped = append(names, dropped...)
		g.unsqueeze()
		g.squeeze(width, wrapAt)
	}
	g.squeeze(width, wrapMin)
	for _, c := range g.shown {
		widest := 0
		for _, r := range append([][]string{g.header}, g.rows...) {
			for line := range strings.SplitSeq(r[c], "\n") {
				for _, part := range Wrap(line, g.widths[c]) {
					widest = max(widest, twwidth.Width(part))
				}
			}
		}
		g.widths[c] = widest
	}
	return dropped
}

func (g *grid) squeeze(width, least int) {
	for over := g.total(g.shown) - width; over > 0; over = g.total(g.shown) - width {
		widest, size := -1, least
		for _, c := range g.shown {
			if g.columns[c].Align == reports.Left && g.widths[c] > size {
				widest, size = c, g.widths[c]
			}
		}
		if widest < 0 {
			return
		}
		g.widths[widest] = max(least, size-over)
	}
}

// heads returns a text for each row: its values in the omitted key columns (see Column.Key). `others` lists the other
// omitted columns.
func (g *grid) heads(dropped []string) (heads, others []string) {
	var keys []int
	for i, c := range g.columns {
		differs := func(r []string) bool { return r[i] != g.rows[0][i] }
		if c.Key && slices.Contains(dropped, c.Name) && slices.ContainsFunc(g.rows, differs) {
			keys = append(keys, i)
		}
	}
	if keys == nil {
		return nil, dropped
	}
	var names []string
	for _, k := range keys {
		names = append(names, g.columns[k].Name)
	}
	for _, r := range g.rows {
		var says []string
		for i, k := range keys {
			if r[k] != "" {
				says = append(says, names[i]+" "+r[k])
			}
		}
		if says == nil {
			says = []string{"no " + strings.Join(names, ", ")}
		}
		heads = append(heads, strings.Join(says, ", "))
	}
	g.gather(heads)
	return heads, slices.DeleteFunc(dropped, func(name string) bool { return slices.Contains(names, name) })
}

func (g *grid) gather(heads []string) {
	order := make([]int, len(heads))
	for i := range order {
		order[i] = i
	}
	first := func(i int) int { return slices.Index(heads, heads[i]) }
	slices.SortStableFunc(order, func(a, b int) int { return first(a) - first(b) })
	rows, names := slices.Clone(g.rows), slices.Clone(heads)
	for to, from := range order {
		g.rows[to], heads[to] = rows[from], names[from]
	}
}

const mostSpelled = 16

func (g *grid) spellings(dropped []string) (lines, others []string) {
	for _, name := range dropped {
		said := g.spell(name)
		if len(said) == 0 || len(said) > mostSpelled {
			others = append(others, name)
			continue
		}
		lines = append(lines, said...)
	}
	return lines, others
}

func (g *grid) spell(name string) (lines []string) {
	c := slices.IndexFunc(g.columns, func(c reports.Column) bool { return c.Name == name })
	by := slices.IndexFunc(g.shown, func(s int) bool { return g.columns[c].IDs != "" && g.columns[s].Name == g.columns[c].IDs })
	if by < 0 {
		return nil
	}
	before, after := "", ": "
	if name := g.columns[g.shown[by]]; name.Align == reports.Right {
		before, after = name.Name+" ", ", "+g.columns[c].Name+": "
	}
	for _, r := range g.rows {
		if line := before + r[g.shown[by]] + after + r[c]; r[c] != "" && r[c] != reports.None().Text && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (g *grid) panels(width int) [][]int {
	if width == 0 || g.total(g.shown) <= width {
		return [][]int{g.shown}
	}
	lead, rest := g.lead(width)
	var out [][]int
	for from := 0; from < len(rest); {
		to := from + 1
		with := func(to int) []int { return slices.Concat(lead, rest[from:to]) }
		for to < len(rest) && g.total(with(to+1)) <= width {
			to++
		}
		out = append(out, with(to))
		from = to
	}
	if out == nil {
		return [][]int{g.shown}
	}
	return out
}

// lead splits the shown columns into leading columns and the rest. Leading columns are all columns before the first
// column of numbers, and, if there is room, the columns with Key or Lead.
func (g *grid) lead(width int) (lead, rest []int) {
	words := slices.IndexFunc(g.shown, func(c int) bool { return g.columns[c].Align == reports.Right })
	if words < 0 {
		return nil, nil
	}
	for i, c := range g.shown {
		if i < words || g.columns[c].Key || g.columns[c].Lead {
			lead = append(lead, c)
		} else {
			rest = append(rest, c)
		}
	}
	if slices.ContainsFunc(rest, func(c int) bool { return g.total(append(slices.Clone(lead), c)) > width }) || len(rest) == 0 {
		return slices.Clone(g.shown[:words]), slices.Clone(g.shown[words:])
	}
	return lead, rest
}
