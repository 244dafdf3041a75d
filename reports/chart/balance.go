package chart

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/workloads"
)

// BalanceFigure draws the busiest rank's load divided by the mean load, along the tokens of a trace. One line of the
// plot is for experts in equal blocks. A second line is for experts as EPLB, DeepSeek's load balancer, places them.
func BalanceFigure(name string, r *workloads.BalanceResult) Figure {
	f := Figure{
		Name: slug("balance", name), Title: "Busiest rank's load / mean: " + name, Width: 6.4 * vg.Inch, Height: 3.4 * vg.Inch,
		Alt: fmt.Sprintf("Load of the busiest rank divided by the mean, in the %d tokens after the %d tokens of the plan: %.2f with experts in equal blocks, %.2f with EPLB's placement.",
			r.Judged, r.Planned, r.Before.MaxMeanRank(), r.After.MaxMeanRank()),
		Source: fmt.Sprintf("%s; planned from the first %d tokens, judged with the next %d", name, r.Planned, r.Judged),
	}
	f.draw = func(c draw.Canvas) { drawBalance(c, r) }
	return f
}

func drawBalance(c draw.Canvas, r *workloads.BalanceResult) {
	p := newPlot("tokens after the plan", "busiest rank's load / mean")
	top := 1.0
	var before, after plotter.XYs
	for _, w := range r.Windows {
		before = append(before, plotter.XY{X: float64(w.Tokens), Y: w.Before})
		after = append(after, plotter.XY{X: float64(w.Tokens), Y: w.After})
		top = max(top, w.Before, w.After)
	}
	fromZero(&p.Y, top*1.1)
	p.X.Min, p.X.Max = 0, float64(max(r.Judged, 1))
	p.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return wholeTicks(roundTicks(lo, hi)) })
	var key legend
	for i, s := range []struct {
		label string
		line  plotter.XYs
	}{{"experts in equal blocks", before}, {"EPLB, planned before", after}} {
		line, mark := styleOf(i).line(), styleOf(i).mark()
		p.Add(&plotter.Line{XYs: s.line, LineStyle: line}, &plotter.Scatter{XYs: s.line, GlyphStyle: mark})
		key.add(s.label, &line, &mark)
	}
	p.Draw(key.below(c))
}
