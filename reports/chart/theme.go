package chart

import (
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	ink    = color.RGBA{0x1f, 0x23, 0x28, 0xff}
	muted  = color.RGBA{0x59, 0x63, 0x6e, 0xff}
	rule   = color.RGBA{0xd8, 0xde, 0xe4, 0xff}
	paper  = color.RGBA{0xff, 0xff, 0xff, 0xff}
	shaded = color.RGBA{0xee, 0xf1, 0xf4, 0xff}
)

// Ink holds colours that the HTML page replaces on dark screens.
var Ink = map[string]string{"ink": "#1F2328", "muted": "#59636E", "rule": "#D8DEE4", "paper": "#FFFFFF", "shaded": "#EEF1F4"}

// palette has colours of Okabe and Ito (2008), which colour-blind readers can tell apart.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff},
	{0xe6, 0x9f, 0x00, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	accent,
	{0xcc, 0x79, 0xa7, 0xff},
}

var accent = color.RGBA{0xd5, 0x5e, 0x00, 0xff}

var dashes = [][]vg.Length{
	nil,
	{vg.Points(6), vg.Points(3)},
	{vg.Points(2), vg.Points(2)},
	{vg.Points(8), vg.Points(3), vg.Points(2), vg.Points(3)},
}

var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
}

// style is the look of a series. 4 dashes and 7 markers give 28 distinct looks in grey print.
type style struct {
	color color.RGBA
	dash  []vg.Length
	glyph draw.GlyphDrawer
}

func styleOf(i int) style {
	return style{palette[i%len(palette)], dashes[i%len(dashes)], glyphs[i%len(glyphs)]}
}

func (s style) line() draw.LineStyle {
	return draw.LineStyle{Color: s.color, Width: vg.Points(1.6), Dashes: s.dash}
}

func (s style) mark() draw.GlyphStyle {
	return draw.GlyphStyle{Color: s.color, Radius: vg.Points(3), Shape: s.glyph}
}

func faded(c color.RGBA, alpha float64) color.RGBA {
	mix := func(v, w uint8) uint8 { return uint8(math.Round(float64(v)*alpha + float64(w)*(1-alpha))) }
	return color.RGBA{mix(c.R, paper.R), mix(c.G, paper.G), mix(c.B, paper.B), 0xff}
}

func translucent(c color.RGBA, alpha float64) color.NRGBA {
	return color.NRGBA{c.R, c.G, c.B, uint8(255 * alpha)}
}

const (
	titleSize = 12
	labelSize = 10
	tickSize  = 9
)

func textStyle(size vg.Length, c color.Color) text.Style {
	return text.Style{
		Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign: draw.XLeft, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler,
	}
}

// panel draws the label of the Y axis itself. With gonum's label, a plot with a logarithmic axis gets empty space at
// the top.
type panel struct {
	*plot.Plot
	side string
}

func (p panel) Draw(c draw.Canvas) {
	if p.side != "" {
		st := textStyle(labelSize, ink)
		st.Rotation, st.XAlign, st.YAlign = math.Pi/2, draw.XCenter, draw.YTop
		data := p.dataCanvas(c)
		c.FillText(st, vg.Point{X: c.Min.X, Y: (data.Min.Y + data.Max.Y) / 2}, p.side)
		c = draw.Crop(c, labelSize+9, 0, 0, 0)
	}
	p.Plot.Draw(c)
}

func (p panel) dataCanvas(c draw.Canvas) draw.Canvas {
	if p.side != "" {
		c = draw.Crop(c, labelSize+9, 0, 0, 0)
	}
	return p.DataCanvas(c)
}

func newPlot(x, y string) panel {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []struct {
		axis  *plot.Axis
		label string
	}{{&p.X, x}, {&p.Y, ""}} {
		a.axis.Label.Text = a.label
		a.axis.Label.Padding = vg.Points(4)
		a.axis.Label.TextStyle.Font = textStyle(labelSize, ink).Font
		a.axis.Label.TextStyle.Color = ink
		a.axis.Tick.Label.Font = textStyle(tickSize, ink).Font
		a.axis.Tick.Label.Color = ink
		a.axis.LineStyle.Color, a.axis.Tick.LineStyle.Color = muted, muted
		a.axis.Tick.Length = vg.Points(4)
	}
	line := draw.LineStyle{Color: rule, Width: vg.Points(0.5)}
	p.Add(&plotter.Grid{Vertical: line, Horizontal: line})
	return panel{p, y}
}

const margin = 8 * vg.Length(1)

// titled draws the title and the warning `lead`, and returns the canvas below them.
func titled(c draw.Canvas, title, lead string) draw.Canvas {
	c = draw.Crop(c, margin, -margin, margin, -margin)
	if lead == "" {
		return headed(c, title, titleSize, 0.5*titleSize)
	}
	return headed(headed(c, title, titleSize, 0), lead, tickSize, 0.5*titleSize)
}

func headed(c draw.Canvas, text string, size, gap vg.Length) draw.Canvas {
	st := textStyle(size, ink)
	st.YAlign = draw.YTop
	for _, line := range broken(text, st, c.Max.X-c.Min.X) {
		c.FillText(st, vg.Point{X: c.Min.X, Y: c.Max.Y}, line)
		c = draw.Crop(c, 0, 0, 0, -1.2*size)
	}
	return draw.Crop(c, 0, 0, 0, -gap)
}

// broken breaks s between words into lines that fit the width.
func broken(s string, st text.Style, width vg.Length) []string {
	var lines []string
	for word := range strings.FieldsSeq(s) {
		if n := len(lines) - 1; n >= 0 && st.Width(lines[n]+" "+word) <= width {
			lines[n] += " " + word
		} else {
			lines = append(lines, elide(word, st, width))
		}
	}
	return lines
}

func sourced(c draw.Canvas, source string) draw.Canvas {
	if source == "" {
		return c
	}
	st := textStyle(tickSize-1, muted)
	st.YAlign = draw.YBottom
	c.FillText(st, c.Min, elide(source, st, c.Max.X-c.Min.X))
	return draw.Crop(c, 0, 0, 1.8*tickSize, 0)
}

func elide(s string, st text.Style, width vg.Length) string {
	if st.Width(s) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && st.Width(string(runes)+"...") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "..."
}

type legend []legendItem

type legendItem struct {
	label string
	line  *draw.LineStyle
	mark  *draw.GlyphStyle
}

func (l *legend) add(label string, line *draw.LineStyle, mark *draw.GlyphStyle) {
	*l = append(*l, legendItem{label, line, mark})
}

const (
	sampleWidth = 26 * vg.Length(1)
	itemGap     = 14 * vg.Length(1)
	legendRow   = 14 * vg.Length(1)
)

// below draws the legend and returns the canvas above it.
func (l legend) below(c draw.Canvas) draw.Canvas {
	rows := l.rows(c.Max.X - c.Min.X)
	y := c.Min.Y + vg.Length(len(rows))*legendRow - legendRow/2
	for _, row := range rows {
		x := c.Min.X
		for _, it := range row {
			it.draw(c, x, y)
			x += it.width() + itemGap
		}
		y -= legendRow
	}
	return l.above(c)
}

func (l legend) above(c draw.Canvas) draw.Canvas {
	height := vg.Length(len(l.rows(c.Max.X-c.Min.X))) * legendRow
	if height > 0 {
		height += legendRow / 2
	}
	return draw.Crop(c, 0, 0, height, 0)
}

func (l legend) rows(width vg.Length) [][]legendItem {
	var rows [][]legendItem
	used := width + 1
	for _, it := range l {
		it.label = elide(it.label, textStyle(tickSize, ink), width-sampleWidth-4)
		if w := it.width(); used+w > width {
			rows = append(rows, nil)
			used = 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], it)
		used += it.width() + itemGap
	}
	return rows
}

func (it legendItem) width() vg.Length {
	return sampleWidth + 4 + textStyle(tickSize, ink).Width(it.label)
}

func (it legendItem) draw(c draw.Canvas, x, y vg.Length) {
	if it.line != nil {
		c.StrokeLine2(*it.line, x, y, x+sampleWidth, y)
	}
	if it.mark != nil {
		c.DrawGlyphNoClip(*it.mark, vg.Point{X: x + sampleWidth/2, Y: y})
	}
	c.FillText(textStyle(tickSize, ink), vg.Point{X: x + sampleWidth + 4, Y: y}, it.label)
}
