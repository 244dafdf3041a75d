package chart

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
)

// floor draws the share of the wire floor that each choice reaches.
func floor(runs []*reports.Loaded, o Options) []Figure {
	var out []Figure
	for _, g := range groups(runs) {
		var b seriesBuilder
		for _, l := range runs {
			wire := o.Wire
			if wire == 0 {
				wire = reports.Wire(l.Run.Machine)
			}
			for _, c := range l.Cases {
				if groupOf(c.Problem) == g {
					b.addShare(c, caseLabel(l, c, runs), c.FloorSeconds(wire))
				}
			}
		}
		all := b.finish()
		if len(all) == 0 {
			continue
		}
		out = append(out, Figure{
			Name: slug("floor", g.slug()), Title: g.title("Share of the wire floor"), Alt: floorAlt(g, all),
			Width: 6.4 * vg.Inch, Height: 3.6 * vg.Inch, draw: func(c draw.Canvas) { drawFloor(c, all) },
		})
	}
	return distinct(out)
}

// addShare adds the choice of a case in per cent of its floor.
func (b *seriesBuilder) addShare(c *reports.Case, label string, floor float64) {
	if b.index == nil {
		b.index = map[string]int{}
	}
	winner := c.Winner()
	if winner == nil || math.IsNaN(floor) || winner.Median.Mid <= 0 {
		return
	}
	m := winner.Median
	b.ours = b.put(b.ours, label, point{c.Problem.Tokens, 100 * floor / m.Mid, 100 * floor / m.High, 100 * floor / max(m.Low, m.Mid/2)})
}

func drawFloor(c draw.Canvas, all []series) {
	p := newPlot("tokens per rank", "of the wire floor (%)")
	logTokens(&p.X, tokensOf(all))
	top := 100.0
	for _, v := range times(all) {
		top = max(top, v)
	}
	fromZero(&p.Y, top)
	var key legend
	for i := len(all) - 1; i >= 0; i-- {
		all[i].addTo(p.Plot)
	}
	for i := range all {
		key.add(all[i].label, &all[i].line, all[i].mark)
	}
	limit := draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{1, 2}}
	p.Add(level(p.Plot, 100, limit))
	key.add("the floor: nominal wire, each token once per rank", &limit, nil)
	p.Draw(key.below(c))
}

// level is a line across the plot.
func level(p *plot.Plot, y float64, st draw.LineStyle) *plotter.Line {
	return &plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: y}, {X: p.X.Max, Y: y}}, LineStyle: st}
}

func floorAlt(g group, all []series) string {
	s := g.title("Share of the wire floor") + ". "
	for _, l := range all {
		best := l.points[0]
		for _, q := range l.points {
			if q.mid > best.mid {
				best = q
			}
		}
		s += l.label + ": at most " + lossText(best.mid/100) + "%. "
	}
	return s
}
