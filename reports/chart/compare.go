package chart

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

// compare draws the ratio of two runs' times for each case. It draws nothing if the runs are not comparable.
func compare(runs []*reports.Loaded, o Options) []Figure {
	if len(runs) != 2 {
		return nil
	}
	c, err := reports.Compare(runs[0], runs[1], o.Compare)
	if err != nil {
		return nil
	}
	return ComparisonFigures(c, o.Fail)
}

const perFigure = 40

// ComparisonFigures draws a comparison, with at most perFigure cases in each figure. The argument `fail` is the
// allowed slow-down as a fraction, or 0 for no limit.
func ComparisonFigures(c *reports.Comparison, fail float64) []Figure {
	var out []Figure
	for from := 0; from < len(c.Cases); from += perFigure {
		page := c.Cases[from:min(from+perFigure, len(c.Cases))]
		f := forest{c, page, fail}
		out = append(out, Figure{
			Name: "compare", Title: fmt.Sprintf("Time of %s divided by time of %s", c.B.Name(), c.A.Name()), Alt: f.alt(),
			Width: 6.8 * vg.Inch, Height: vg.Length(1.5+0.22*float64(len(page))) * vg.Inch, draw: f.draw,
		})
	}
	return out
}

type forest struct {
	c    *reports.Comparison
	page []reports.Compared
	fail float64
}

var verdictStyles = []struct {
	verdict record.Verdict
	color   color.RGBA
	shape   draw.GlyphDrawer
}{
	{record.Same, palette[0], draw.CircleGlyph{}},
	{record.Faster, palette[2], draw.PyramidGlyph{}},
	{record.Slower, accent, draw.BoxGlyph{}},
	{record.Undecided, muted, draw.RingGlyph{}},
}

func (f forest) draw(c draw.Canvas) {
	p := newPlot("ratio (1: as fast; more: slower)", "")
	lo, hi := f.extent()
	p.X.Min, p.X.Max = lo, hi
	p.X.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Y.Min, p.Y.Max = -0.7, float64(len(f.page))-0.3
	var names plot.ConstantTicks
	for i, x := range f.page {
		names = append(names, plot.Tick{Value: float64(len(f.page) - 1 - i), Label: elide(f.label(x), textStyle(tickSize, ink), 200)})
	}
	p.Y.Tick.Marker = names
	p.Y.Tick.Length = 0
	p.Add(f)
	var key legend
	for _, v := range verdictStyles {
		mark := draw.GlyphStyle{Color: v.color, Radius: vg.Points(3.5), Shape: v.shape}
		line := draw.LineStyle{Color: v.color, Width: vg.Points(1.4)}
		key.add(string(v.verdict), &line, &mark)
	}
	band := draw.LineStyle{Color: shadedBand, Width: vg.Points(8)}
	key.add("band that counts as same", &band, nil)
	if f.fail > 0 {
		limit := f.limit()
		key.add(fmt.Sprintf("gate at %+.3g%%", 100*f.fail), &limit, nil)
	}
	p.Draw(key.below(c))
}

var shadedBand = faded(palette[0], 0.15)

func (f forest) limit() draw.LineStyle {
	return draw.LineStyle{Color: accent, Width: vg.Points(1.2), Dashes: dashes[1]}
}

func (f forest) label(x reports.Compared) string {
	s := x.Case.Title()
	if x.A != nil && x.B != nil && x.A.Key == x.B.Key && len(f.page) > 1 && f.page[0].Case == f.page[1].Case {
		s += ", " + x.Case.Label(x.A)
	}
	return s
}

// extent returns the range of the X axis. It cuts the range at 0.25 and 4, because with an extreme case all other
// cases would be too small to read.
func (f forest) extent() (lo, hi float64) {
	lo, hi = 1, 1
	for _, x := range f.page {
		for _, v := range []float64{x.Ratio.Mid, x.Ratio.Low, x.Ratio.High, 1 + x.Band, 1 - x.Band} {
			if finite(v) && v > 0 {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	lo, hi = max(lo, 0.25), min(max(hi, 1+f.fail), 4)
	pad := max(0.06*(hi-lo), 0.005)
	return lo - pad, hi + pad
}

// Plot implements plot.Plotter.
func (f forest) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for i, x := range f.page {
		y := ty(float64(len(f.page) - 1 - i))
		h := (ty(1) - ty(0)) / 2
		f.band(c, tx(1/(1+x.Band)), tx(1+x.Band), y-h, y+h)
	}
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: vg.Points(0.8)}, tx(1), c.Min.Y, tx(1), c.Max.Y)
	if f.fail > 0 && c.ContainsX(tx(1+f.fail)) {
		c.StrokeLine2(f.limit(), tx(1+f.fail), c.Min.Y, tx(1+f.fail), c.Max.Y)
	}
	for i, x := range f.page {
		f.drawCase(c, x, ty(float64(len(f.page)-1-i)), tx)
	}
}

func (f forest) band(c draw.Canvas, x0, x1, y0, y1 vg.Length) {
	r := vg.Rectangle{Min: vg.Point{X: max(x0, c.Min.X), Y: y0}, Max: vg.Point{X: min(x1, c.Max.X), Y: y1}}
	c.SetColor(shadedBand)
	c.Fill(r.Path())
}

func (f forest) drawCase(c draw.Canvas, x reports.Compared, y vg.Length, tx func(float64) vg.Length) {
	for _, v := range verdictStyles {
		if v.verdict != x.Verdict {
			continue
		}
		inside := func(r float64) vg.Length { return min(max(tx(r), c.Min.X), c.Max.X) }
		if math.IsNaN(x.Ratio.Mid) {
			st := textStyle(tickSize, muted)
			c.FillText(st, vg.Point{X: tx(1) + 4, Y: y}, elide(x.Reason, st, c.Max.X-tx(1)-8))
			return
		}
		if finite(x.Ratio.Low) {
			c.StrokeLine2(draw.LineStyle{Color: v.color, Width: vg.Points(1.4)}, inside(x.Ratio.Low), y, inside(x.Ratio.High), y)
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: v.color, Radius: vg.Points(3.5), Shape: v.shape}, vg.Point{X: inside(x.Ratio.Mid), Y: y})
	}
}

func (f forest) alt() string {
	s := fmt.Sprintf("Time of %s divided by time of %s. ", f.c.B.Name(), f.c.A.Name())
	for _, x := range f.page {
		s += fmt.Sprintf("%s: %.3f, %s. ", x.Case.Title(), x.Ratio.Mid, x.Verdict)
	}
	return s
}
