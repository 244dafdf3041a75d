package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
)

// wire draws how close each winner comes to the wire limit.
var wire = groupKind{"wire", "Per cent of the wire limit", 3.6, (*seriesBuilder).addShare, drawWire, func(s series) string { return fmt.Sprintf("at most %.1f %%", s.highest().mid) }}

// addShare adds the winner of a case in per cent of its wire limit.
func (b *seriesBuilder) addShare(l *reports.Loaded, c *reports.Case) {
	limit := c.WireLimit(b.options.wire(l))
	winner := c.Winner()
	if winner == nil || math.IsNaN(limit) || winner.Median.Mid <= 0 {
		return
	}
	m := winner.Median
	b.ours = put(b.ours, b.label(l, c), point{c.Problem.Tokens, 100 * limit / m.Mid, 100 * limit / m.High, 100 * limit / max(m.Low, m.Mid/2)})
}

func drawWire(c draw.Canvas, all []series) {
	p := overTokens("of the wire limit (%)", all)
	fromZero(&p.Y, slices.Max(append(values(all), 100)))
	key := addAll(p, all)
	limit := draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{1, 2}}
	p.Add(level(p.Plot, 100, limit))
	key.add("wire limit: each token once to each rank, at the link's nominal speed", &limit, nil)
	p.Draw(key.below(c))
}

// level is a line across the plot.
func level(p *plot.Plot, y float64, st draw.LineStyle) *plotter.Line {
	return &plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: y}, {X: p.X.Max, Y: y}}, LineStyle: st}
}
