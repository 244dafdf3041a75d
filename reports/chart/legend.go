package chart

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legend is a list of series in rows below a plot, where it covers no data.
type legend []legendItem

type legendItem struct {
	label string
	line  *draw.LineStyle  // nil: no line
	mark  *draw.GlyphStyle // nil: no marker
}

func (l *legend) add(label string, line *draw.LineStyle, mark *draw.GlyphStyle) {
	*l = append(*l, legendItem{label, line, mark})
}

const (
	sampleWidth = 26 * vg.Length(1)
	itemGap     = 14 * vg.Length(1)
	legendRow   = 14 * vg.Length(1)
)

// below draws the legend at the bottom of c and returns what is left above.
func (l legend) below(c draw.Canvas) draw.Canvas {
	rows := l.rows(c.Max.X - c.Min.X)
	height := vg.Length(len(rows)) * legendRow
	y := c.Min.Y + height - legendRow/2
	for _, row := range rows {
		x := c.Min.X
		for _, it := range row {
			it.draw(c, x, y)
			x += it.width() + itemGap
		}
		y -= legendRow
	}
	if height > 0 {
		height += legendRow / 2
	}
	return draw.Crop(c, 0, 0, height, 0)
}

// rows breaks the items into lines of at most width.
func (l legend) rows(width vg.Length) [][]legendItem {
	var rows [][]legendItem
	used := width + 1
	for _, it := range l {
		it.label = elide(it.label, words(tickSize, ink), width-sampleWidth-4)
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
	return sampleWidth + 4 + words(tickSize, ink).Width(it.label)
}

func (it legendItem) draw(c draw.Canvas, x, y vg.Length) {
	if it.line != nil {
		c.StrokeLine2(*it.line, x, y, x+sampleWidth, y)
	}
	if it.mark != nil {
		c.DrawGlyphNoClip(*it.mark, vg.Point{X: x + sampleWidth/2, Y: y})
	}
	c.FillText(words(tickSize, ink), vg.Point{X: x + sampleWidth + 4, Y: y}, it.label)
}
