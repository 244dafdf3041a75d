package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

type cell struct {
	col, row int
	value    float64 // 0 to 1; NaN: no colour
	text     string
	crossed  bool
	boxed    bool
}

type matrix struct {
	list       []cell
	cols, rows int
}

// DataRange implements plot.DataRanger.
func (m matrix) DataRange() (xmin, xmax, ymin, ymax float64) {
	return -0.5, float64(m.cols) - 0.5, -0.5, float64(m.rows) - 0.5
}

// Plot implements plot.Plotter.
func (m matrix) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	place := func(q cell) vg.Rectangle {
		return vg.Rectangle{
			Min: vg.Point{X: tx(float64(q.col) - 0.5), Y: ty(float64(q.row) - 0.5)},
			Max: vg.Point{X: tx(float64(q.col) + 0.5), Y: ty(float64(q.row) + 0.5)},
		}
	}
	for _, q := range m.list {
		q.draw(c, place(q))
	}
	for _, q := range m.list {
		if q.boxed {
			c.StrokeLines(draw.LineStyle{Color: darkText, Width: vg.Points(2)}, frame(place(q)))
		}
	}
}

func frame(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min}
}

func (q cell) draw(c draw.Canvas, r vg.Rectangle) {
	fill, txt := shaded, ink
	if !math.IsNaN(q.value) {
		fill = shade(q.value)
		txt = inkOn(fill)
	}
	c.SetColor(fill)
	c.Fill(r.Path())
	c.StrokeLines(draw.LineStyle{Color: paper, Width: vg.Points(0.75)}, frame(r))
	if q.crossed {
		hatch := draw.LineStyle{Color: muted, Width: vg.Points(0.75)}
		c.StrokeLine2(hatch, r.Min.X, r.Min.Y, r.Max.X, r.Max.Y)
		c.StrokeLine2(hatch, r.Min.X, r.Max.Y, r.Max.X, r.Min.Y)
	}
	st := textStyle(min(tickSize, (r.Max.Y-r.Min.Y)*0.62), txt)
	if st.Width(q.text) > r.Max.X-r.Min.X || st.Font.Size < 4 {
		return
	}
	st.XAlign = draw.XCenter
	if q.crossed {
		half := st.Width(q.text)/2 + 3
		mid := vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
		c.SetColor(fill)
		c.Fill(vg.Rectangle{Min: vg.Point{X: mid.X - half, Y: mid.Y - st.Font.Size/2}, Max: vg.Point{X: mid.X + half, Y: mid.Y + st.Font.Size/2}}.Path())
	}
	c.FillText(st, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}, q.text)
}

// ramp is ColorBrewer's colour scale Blues (Harrower and Brewer 2003) without the lightest step.
var ramp = []color.RGBA{
	{0xde, 0xeb, 0xf7, 0xff}, {0xc6, 0xdb, 0xef, 0xff}, {0x9e, 0xca, 0xe1, 0xff}, {0x6b, 0xae, 0xd6, 0xff},
	{0x42, 0x92, 0xc6, 0xff}, {0x21, 0x71, 0xb5, 0xff}, {0x08, 0x51, 0x9c, 0xff}, {0x08, 0x30, 0x6b, 0xff},
}

func shade(v float64) color.RGBA {
	at := min(max(v, 0), 1) * float64(len(ramp)-1)
	i := min(int(at), len(ramp)-2)
	a, b, t := ramp[i], ramp[i+1], at-float64(i)
	mix := func(x, y uint8) uint8 { return uint8(float64(x)*(1-t) + float64(y)*t) }
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

// darkText and lightText are the colours of text in cells. The HTML page replaces the colours ink and paper on dark
// screens, but not these two.
var darkText, lightText = color.RGBA{0x1f, 0x23, 0x29, 0xff}, color.RGBA{0xfe, 0xff, 0xff, 0xff}

func inkOn(fill color.RGBA) color.RGBA {
	if 0.299*float64(fill.R)+0.587*float64(fill.G)+0.114*float64(fill.B) < 140 {
		return lightText
	}
	return darkText
}

func drawMatrix(c draw.Canvas, m matrix, x, y axisNames) {
	p := newPlot(x.label, y.label)
	p.Add(m)
	p.X.Tick.Marker, p.Y.Tick.Marker = x.ticks(), y.ticks()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = m.DataRange()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding, a.LineStyle.Width, a.Tick.LineStyle.Width = 0, 0, 0
	}
	if x.slanted() {
		p.X.Tick.Label.Rotation = math.Pi / 5
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	}
	p.Draw(c)
}

type axisNames struct {
	label string
	names []string
}

func (a axisNames) ticks() plot.ConstantTicks {
	var out plot.ConstantTicks
	every := 1 + len(a.names)/24
	for i, n := range a.names {
		if i%every == 0 {
			out = append(out, plot.Tick{Value: float64(i), Label: elide(n, textStyle(tickSize, ink), 110)})
		}
	}
	return out
}

func (a axisNames) slanted() bool {
	total := vg.Length(0)
	for _, n := range a.names {
		total += textStyle(tickSize, ink).Width(n) + 6
	}
	return total > 4.6*vg.Inch
}
