package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// samples draws the time of each round of the winner, the default and the twin (the default, measured again).
func samples(c *reports.Case, _ Options) *Figure {
	shown := shownEntries(c)
	if len(shown) == 0 {
		return nil
	}
	return &Figure{Alt: samplesAlt(c, shown), Width: 6.8 * vg.Inch, Height: 3.6 * vg.Inch, draw: func(dc draw.Canvas) { drawSamples(dc, c, shown) }}
}

func shownEntries(c *reports.Case) []*reports.Entry {
	var out []*reports.Entry
	if winner := c.Winner(); winner != nil {
		out = append(out, winner)
	}
	for _, role := range []record.Role{record.Default, record.Twin} {
		for _, e := range c.Entries {
			if e.Role == role && e.OK() && (len(out) == 0 || e != out[0]) {
				out = append(out, e)
			}
		}
	}
	return out
}

func drawSamples(c draw.Canvas, cs *reports.Case, shown []*reports.Entry) {
	p := newPlot("round", "time of one call (us)")
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	p.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return wholeTicks(roundTicks(lo, hi)) })
	var key legend
	for _, e := range shown {
		st := styleOf(sampleStyle(e))
		mark, line := st.mark(), st.line()
		mark.Radius = vg.Points(2.2)
		points := plotter.XYs{}
		for _, r := range e.AllRounds() {
			points = append(points, plotter.XY{X: float64(r.Number), Y: r.Seconds * 1e6})
		}
		p.Add(&plotter.Scatter{XYs: points, GlyphStyle: mark})
		p.Add(across{e.Median.Mid * 1e6, line})
		name := sampleLabel(cs, e)
		if e == cs.Winner() {
			name = "winner " + e.Config.ID() // the full spelling is too long
		}
		key.add(elide(name, textStyle(tickSize, ink), 300), &line, &mark)
	}
	main := key.below(c)
	if pairs := twinRatios(cs); len(pairs) > 0 {
		split := (main.Max.X - main.Min.X) * 0.7
		drawTwin(draw.Crop(main, split+8, 0, 0, 0), cs, pairs)
		main = draw.Crop(main, 0, split-(main.Max.X-main.Min.X)-8, 0, 0)
	}
	p.Draw(main)
}

func sampleStyle(e *reports.Entry) int {
	switch e.Role {
	case record.Default:
		return 1
	case record.Twin:
		return 2
	}
	return 0
}

func sampleLabel(c *reports.Case, e *reports.Entry) string {
	if e == c.Winner() {
		return "winner " + e.Config.ID() + ": " + c.Label(e)
	}
	return c.Label(e)
}

type across struct {
	y    float64
	line draw.LineStyle
}

// Plot implements plot.Plotter.
func (a across) Plot(c draw.Canvas, p *plot.Plot) {
	_, ty := p.Transforms(&c)
	if y := ty(a.y); c.ContainsY(y) {
		c.StrokeLine2(a.line, c.Min.X, y, c.Max.X, y)
	}
}

func twinRatios(c *reports.Case) []float64 {
	d := c.Default()
	for _, e := range c.Entries {
		if e.Role == record.Twin && e.OK() && d != nil {
			return e.Ratios(d)
		}
	}
	return nil
}

func drawTwin(c draw.Canvas, cs *reports.Case, ratios []float64) {
	p := newPlot("A/A", "twin / default")
	points := plotter.XYs{}
	far := 0.002
	for i, r := range ratios {
		// X has no meaning. It keeps the points apart.
		points = append(points, plotter.XY{X: math.Mod(float64(i)*0.618, 1) - 0.5, Y: r})
		far = max(far, math.Abs(r-1))
	}
	p.X.Min, p.X.Max = -0.8, 0.8
	p.X.Tick.Marker = plot.ConstantTicks{}
	p.Y.Min, p.Y.Max = max(0, 1-far*1.1), 1+far*1.1
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	mid := stat.MedianInterval(ratios)
	if spread := cs.Spread(); spread > 0 {
		mid.Low, mid.High = 1-spread, 1+spread
		p.X.Label.Text = fmt.Sprintf("A/A spread %.2g%%", spread*100)
	}
	p.Add(&plotter.Polygon{XYs: []plotter.XYs{{{X: -0.8, Y: mid.Low}, {X: 0.8, Y: mid.Low}, {X: 0.8, Y: mid.High}, {X: -0.8, Y: mid.High}}}, Color: translucent(palette[2], 0.2)})
	p.Add(&plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: palette[2], Radius: vg.Points(2), Shape: draw.CircleGlyph{}}})
	p.Add(across{1, draw.LineStyle{Color: ink, Width: vg.Points(0.8)}})
	p.Draw(c)
}

func samplesAlt(c *reports.Case, shown []*reports.Entry) string {
	s := c.Title() + ". "
	for _, e := range shown {
		s += fmt.Sprintf("%s: median %s us of %d rounds. ", sampleLabel(c, e), reports.Micros(e.Median.Mid).Text, len(e.Times))
	}
	if c.AA != nil {
		s += fmt.Sprintf("The default against itself varies by %.2g%%.", 100*c.AA.Spread)
	}
	return s
}
