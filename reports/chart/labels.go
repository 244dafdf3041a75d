package chart

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

type endLabel struct {
	legendItem
	lines  []string
	end    vg.Point
	center vg.Length
}

const (
	labelGap      = 6 * vg.Length(1)
	shortSample   = 14 * vg.Length(1)
	labelRow      = 1.15 * tickSize
	labelBreak    = 84 * vg.Length(1)
	mostLabelText = 0.32 // largest share of the picture's width that labels may take
)

func (l endLabel) height() vg.Length { return vg.Length(len(l.lines)) * labelRow }

// drawLabelled draws a plot with a label at the end of each line. If the labels do not fit, it draws a legend.
func (p panel) drawLabelled(c draw.Canvas, all []series, further legend) {
	labels, width := endLabels(all)
	plot := draw.Crop(further.above(c), 0, -width, 0, 0)
	data := p.dataCanvas(plot)
	if width > mostLabelText*(c.Max.X-c.Min.X) || heightOf(labels) > plot.Max.Y-data.Min.Y {
		p.Draw(append(legendOf(all), further...).below(c))
		return
	}
	further.below(c)
	p.Draw(plot)
	for i, s := range all {
		last := s.points[len(s.points)-1]
		labels[i].end = vg.Point{X: data.X(p.X.Norm(s.x(last))), Y: data.Y(p.Y.Norm(clamp(last.mid, &p.Y)))}
	}
	spreadLabels(labels, data.Min.Y, plot.Max.Y)
	for _, l := range labels {
		l.draw(c, data.Max.X+labelGap)
	}
}

func legendOf(all []series) (key legend) {
	for i := range all {
		key.add(all[i].label, &all[i].line, all[i].mark)
	}
	return key
}

func endLabels(all []series) ([]endLabel, vg.Length) {
	st := textStyle(tickSize, ink)
	var out []endLabel
	var widest vg.Length
	for i, it := range legendOf(all) {
		l := endLabel{legendItem: it, lines: broken(all[i].label, st, labelBreak)}
		for _, line := range l.lines {
			widest = max(widest, st.Width(line))
		}
		out = append(out, l)
	}
	return out, labelGap + shortSample + 4 + widest
}

func heightOf(labels []endLabel) (h vg.Length) {
	for _, l := range labels {
		h += l.height()
	}
	return h
}

// spreadLabels places each label near the end of its line, so that labels do not overlap. All labels lie between the
// heights `low` and `high`.
func spreadLabels(labels []endLabel, low, high vg.Length) {
	order := make([]*endLabel, len(labels))
	for i := range labels {
		order[i] = &labels[i]
	}
	slices.SortStableFunc(order, func(a, b *endLabel) int { return cmp.Compare(a.end.Y, b.end.Y) })
	type group struct {
		labels      []*endLabel
		low, height vg.Length
	}
	place := func(g *group) {
		// A group is a stack of labels. The stack lies so that its labels are, on the average, as high as the ends of
		// their lines.
		var middle, below vg.Length
		for _, l := range g.labels {
			middle += l.end.Y - below - l.height()/2
			below += l.height()
		}
		g.height = below
		g.low = min(max(middle/vg.Length(len(g.labels)), low), high-below)
	}
	var groups []group
	for _, l := range order {
		g := group{labels: []*endLabel{l}}
		place(&g)
		for n := len(groups) - 1; n >= 0 && groups[n].low+groups[n].height > g.low; n-- {
			g.labels = append(groups[n].labels, g.labels...)
			groups = groups[:n]
			place(&g)
		}
		groups = append(groups, g)
	}
	for _, g := range groups {
		at := g.low
		for _, l := range g.labels {
			l.center = at + l.height()/2
			at += l.height()
		}
	}
}

func (l endLabel) draw(c draw.Canvas, x vg.Length) {
	thin := draw.LineStyle{Color: rule, Width: vg.Points(0.6)}
	c.StrokeLine2(thin, l.end.X, l.end.Y, x, l.center)
	if l.line != nil {
		c.StrokeLine2(*l.line, x, l.center, x+shortSample, l.center)
	}
	if l.mark != nil {
		c.DrawGlyphNoClip(*l.mark, vg.Point{X: x + shortSample/2, Y: l.center})
	}
	for i, line := range l.lines {
		y := l.center + l.height()/2 - (vg.Length(i)+0.5)*labelRow
		c.FillText(textStyle(tickSize, ink), vg.Point{X: x + shortSample + 4, Y: y}, line)
	}
}
