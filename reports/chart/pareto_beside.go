package chart

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
)

func paretoBeside(c *reports.Case) *Figure {
	b, ok := reports.BesideParetoOf(c)
	if !ok {
		return nil
	}
	kind, _, _ := strings.Cut(c.Problem.Beside, ":")
	return &Figure{Title: "Time alone and cost beside " + kind, Alt: besideAlt(b), Width: 6.4 * vg.Inch, Height: 4.2 * vg.Inch, draw: func(dc draw.Canvas) { drawBeside(dc, b) }}
}

func drawBeside(c draw.Canvas, b reports.BesidePareto) {
	p := newPlot("SMs taken (workers on a CPU)", "time of one call (us)")
	var ys []float64
	for _, q := range slices.Concat(pointsOf(b.Alone.All), pointsOf(b.Cost.All)) {
		ys = append(ys, q.Y)
		p.X.Max = max(p.X.Max, q.X)
	}
	timeAxis(&p.Y, ys)
	fromZero(&p.X, p.X.Max)
	within := func(points plotter.XYs) plotter.XYs {
		for i := range points {
			points[i].Y = clamp(points[i].Y, &p.Y)
		}
		return points
	}
	var key legend
	for i, f := range []struct {
		name  string
		front reports.Pareto
	}{{"alone", b.Alone}, {"cost beside the product", b.Cost}} {
		st := styleOf(i)
		line, mark := st.line(), st.mark()
		cloud := draw.GlyphStyle{Color: faded(st.color, 0.35), Radius: vg.Points(1.6), Shape: st.glyph}
		best := f.front.Front[len(f.front.Front)-1]
		p.Add(&plotter.Scatter{XYs: within(pointsOf(f.front.All)), GlyphStyle: cloud},
			&plotter.Line{XYs: within(pointsOf(f.front.Front)), LineStyle: line, StepStyle: plotter.PostStep},
			&plotter.Scatter{XYs: within(pointsOf(f.front.Front)), GlyphStyle: mark})
		key.add(fmt.Sprintf("%s: least %s us on %d SMs", f.name, reports.Micros(best.Level).Text, best.Cost.SMs), &line, &mark)
	}
	if len(b.Phased) > 0 {
		ring := draw.GlyphStyle{Color: accent, Radius: vg.Points(4), Shape: draw.RingGlyph{}}
		p.Add(&plotter.Scatter{XYs: within(pointsOf(b.Phased)), GlyphStyle: ring})
		key.add("cost with send and receive in separate kernels", nil, &ring)
	}
	p.Draw(key.below(c))
}

func besideAlt(b reports.BesidePareto) string {
	alone, cost := b.Alone.Front[len(b.Alone.Front)-1], b.Cost.Front[len(b.Cost.Front)-1]
	return fmt.Sprintf("%s: the least time alone is %s us on %d SMs; the least cost beside the product is %s us on %d SMs; %d of %d configs send and receive in separate kernels.",
		b.Cost.Case.Title(), reports.Micros(alone.Level).Text, alone.Cost.SMs, reports.Micros(cost.Level).Text, cost.Cost.SMs, len(b.Phased), len(b.Cost.All))
}
