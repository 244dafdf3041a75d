package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

const panelWidth, panelHeight = 3.3 * vg.Inch, 2.7 * vg.Inch

// A work is one panel of the picture. It shows libraries whose calls include the same steps, so that their times can
// be compared.
type work struct {
	name  string
	tuned []series
	plain []series // times of defaults, where the default is not the winner
}

// libraryPicture has a column for each op and a panel for each kind of work.
type libraryPicture struct {
	shape   ep.Problem
	routing string
	columns [][]work
	names   []string // of libraries; the index selects the colour
}

// libraries draws the times of several libraries, tuned and by default.
func libraries(runs []*reports.Loaded, _ Options) []Figure {
	if len(runs) < 2 {
		return nil
	}
	choices, err := reports.CompareLibraries(runs)
	if err != nil || !reports.SeveralRuns(choices) {
		return nil // the runs cannot be compared, or have only one library
	}
	var out []Figure
	for _, p := range libraryPictures(choices) {
		out = append(out, p.figure())
	}
	return out
}

func libraryPictures(choices []reports.LibraryComparison) []*libraryPicture {
	var out []*libraryPicture
	for _, c := range choices {
		shape := c.Problem
		shape.Op, shape.Tokens = "", 0
		i := slices.IndexFunc(out, func(p *libraryPicture) bool { return p.shape == shape && p.routing == c.Routing })
		if i < 0 {
			i, out = len(out), append(out, &libraryPicture{shape: shape, routing: c.Routing, columns: make([][]work, len(ep.Ops()))})
		}
		out[i].add(c)
	}
	for _, p := range out {
		p.columns = slices.DeleteFunc(p.columns, func(c []work) bool { return len(c) == 0 })
		p.style()
	}
	return out
}

func (p *libraryPicture) add(c reports.LibraryComparison) {
	column := &p.columns[slices.Index(ep.Ops(), c.Problem.Op)]
	name := fmt.Sprintf("%s: %s", c.Problem.Op, c.Work)
	i := slices.IndexFunc(*column, func(w work) bool { return w.name == name })
	if i < 0 {
		i, *column = len(*column), append(*column, work{name: name})
	}
	w := &(*column)[i]
	for _, o := range c.Libraries {
		if !slices.Contains(p.names, o.Library) {
			p.names = append(p.names, o.Library)
		}
		w.tuned = addPoint(w.tuned, o.Library, micros(o.Case, o.Entry))
		if d := o.Case.Default(); d != nil && d.OK() && d.Key != o.Entry.Key {
			w.plain = addPoint(w.plain, o.Library, micros(o.Case, d))
		}
	}
}

func (p *libraryPicture) style() {
	for _, column := range p.columns {
		for _, w := range column {
			for i := range w.tuned {
				st := styleOf(slices.Index(p.names, w.tuned[i].label))
				mark := st.mark()
				w.tuned[i].line, w.tuned[i].mark = draw.LineStyle{Color: st.color, Width: vg.Points(1.6)}, &mark
			}
			for i := range w.plain {
				st := styleOf(slices.Index(p.names, w.plain[i].label))
				w.plain[i].line = draw.LineStyle{Color: st.color, Width: vg.Points(1), Dashes: []vg.Length{4, 3}}
			}
			for _, s := range slices.Concat(w.tuned, w.plain) {
				slices.SortStableFunc(s.points, func(a, b point) int { return cmp.Compare(a.tokens, b.tokens) })
			}
		}
	}
}

func (p *libraryPicture) figure() Figure {
	rows := 0
	for _, column := range p.columns {
		rows = max(rows, len(column))
	}
	f := Figure{Name: slug("libraries", string(p.shape.Dispatch), fmt.Sprintf("h%d-e%d-k%d-r%d", p.shape.Hidden, p.shape.Experts, p.shape.TopK, p.shape.Ranks), p.routing),
		Title: fmt.Sprintf("Libraries under %s: %s, hidden %d, %d experts, top-%d, %d ranks", p.routing, p.shape.Dispatch, p.shape.Hidden, p.shape.Experts, p.shape.TopK, p.shape.Ranks),
		Width: vg.Length(len(p.columns)) * panelWidth, Height: vg.Length(rows)*panelHeight + 0.8*vg.Inch, draw: func(c draw.Canvas) { p.draw(c, rows) }}
	f.Width = max(f.Width, 6.4*vg.Inch)
	f.Alt = f.Title + ". " + p.words()
	return f
}

func (p *libraryPicture) words() string {
	var b strings.Builder
	for _, column := range p.columns {
		for _, w := range column {
			for _, s := range w.tuned {
				fmt.Fprintf(&b, "%s, %s: %s. ", w.name, s.label, latency.words(s))
			}
		}
	}
	return b.String()
}

func (p *libraryPicture) draw(c draw.Canvas, rows int) {
	var key legend
	for i, name := range p.names {
		st := styleOf(i)
		mark := st.mark()
		key.add(name, &draw.LineStyle{Color: st.color, Width: vg.Points(1.6)}, &mark)
	}
	key.add("the library's default, where tuning changed it", &draw.LineStyle{Color: muted, Width: vg.Points(1), Dashes: []vg.Length{4, 3}}, nil)
	c = key.below(c)
	width, height := (c.Max.X-c.Min.X)/vg.Length(len(p.columns)), (c.Max.Y-c.Min.Y)/vg.Length(rows)
	for i, column := range p.columns {
		for k, w := range column {
			left, top := vg.Length(i)*width, vg.Length(k)*height
			w.draw(draw.Crop(c, left, left+width-(c.Max.X-c.Min.X), c.Max.Y-c.Min.Y-top-height, -top))
		}
	}
}

func (w work) draw(c draw.Canvas) {
	c = draw.Crop(c, 4, -4, 2, -4)
	below := headed(c, w.name, labelSize, 0.3*labelSize)
	all := slices.Concat(w.tuned, w.plain)
	p := overTokens("time of one call (us)", all)
	logTime(&p.Y, values(all))
	for i := len(all) - 1; i >= 0; i-- {
		all[i].addTo(p.Plot)
	}
	p.Draw(below)
}
