package chart

import (
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

func pareto(c *reports.Case, o Options) *Figure {
	if o.Beside {
		return paretoBeside(c)
	}
	front := reports.ParetoOf(c)
	if len(front.Front) == 0 {
		return nil
	}
	return &Figure{Alt: paretoAlt(front), Width: 6.4 * vg.Inch, Height: 3.8 * vg.Inch, draw: func(dc draw.Canvas) { drawPareto(dc, front) }}
}

func timeLabel(p ep.Problem) string {
	if p.Objective == ep.BesideProduct {
		return "cost of one call (us)"
	}
	return "time of one call (us)"
}

func drawPareto(c draw.Canvas, f reports.Pareto) {
	p := newPlot("SMs taken (workers on a CPU)", timeLabel(f.Case.Problem))
	all, front := pointsOf(f.All), pointsOf(f.Front)
	var ys []float64
	if d := f.Case.Default(); d != nil && d.OK() && d.Cost.SMs > 0 {
		ys, p.X.Max = append(ys, d.Level*1e6), float64(d.Cost.SMs)
	}
	for _, q := range all {
		ys = append(ys, q.Y)
		p.X.Max = max(p.X.Max, q.X)
	}
	timeAxis(&p.Y, ys)
	fromZero(&p.X, p.X.Max)
	for _, points := range []plotter.XYs{all, front} {
		for i := range points {
			points[i].Y = clamp(points[i].Y, &p.Y)
		}
	}
	var key legend
	cloud := draw.GlyphStyle{Color: faded(muted, 0.45), Radius: vg.Points(1.8), Shape: draw.CircleGlyph{}}
	p.Add(&plotter.Scatter{XYs: all, GlyphStyle: cloud})
	key.add("configs", nil, &cloud)
	st := styleOf(0)
	line, mark := st.line(), st.mark()
	p.Add(&plotter.Line{XYs: front, LineStyle: line, StepStyle: plotter.PostStep}, &plotter.Scatter{XYs: front, GlyphStyle: mark})
	key.add("front", &line, &mark)
	if f.Knee >= 0 {
		ring := draw.GlyphStyle{Color: accent, Radius: vg.Points(7), Shape: draw.RingGlyph{}}
		p.Add(&plotter.Scatter{XYs: front[f.Knee : f.Knee+1], GlyphStyle: ring})
		knee := f.Front[f.Knee]
		key.add(fmt.Sprintf("knee: %d SMs, %s us", knee.Cost.SMs, reports.Micros(knee.Level).Text), nil, &ring)
	}
	key.marked(p, f.Case.Winner(), "winner", draw.SquareGlyph{})
	key.marked(p, f.Case.Default(), "default", draw.TriangleGlyph{})
	p.Draw(key.below(c))
}

func (l *legend) marked(p panel, e *reports.Entry, name string, shape draw.GlyphDrawer) {
	if e == nil || !e.OK() || e.Cost.SMs == 0 {
		return
	}
	style := draw.GlyphStyle{Color: ink, Radius: vg.Points(6), Shape: shape}
	at := pointsOf([]*reports.Entry{e})
	at[0].Y = clamp(at[0].Y, &p.Y)
	p.Add(&plotter.Scatter{XYs: at, GlyphStyle: style})
	l.add(fmt.Sprintf("%s: %d SMs, %s us", name, e.Cost.SMs, reports.Micros(e.Level).Text), nil, &style)
}

func pointsOf(entries []*reports.Entry) plotter.XYs {
	out := make(plotter.XYs, len(entries))
	for i, e := range entries {
		out[i] = plotter.XY{X: float64(e.Cost.SMs), Y: e.Level * 1e6}
	}
	return out
}

func paretoAlt(f reports.Pareto) string {
	first, last := f.Front[0], f.Front[len(f.Front)-1]
	s := fmt.Sprintf("%s: from %s us on %d SMs to %s us on %d SMs; %d of %d configs are on the front.", f.Case.Title(),
		reports.Micros(first.Level).Text, first.Cost.SMs, reports.Micros(last.Level).Text, last.Cost.SMs, len(f.Front), len(f.All))
	if w := f.Case.Winner(); w != nil {
		s += fmt.Sprintf(" The winner is %s, %d SMs.", f.Case.Label(w), w.Cost.SMs)
	}
	return s
}
