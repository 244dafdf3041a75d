package chart

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Forecast is a predicted time at one rank count.
type Forecast struct {
	Panel  string
	Line   string // model and routing
	Ranks  int
	Micros float64
	Limit  string // bottleneck, such as network
}

// Predicted draws predicted times against ranks.
func Predicted(title, source string, all []Forecast) Figure {
	p := forecasts{all: all}
	for _, f := range all {
		p.panels, p.lines, p.limits = with(p.panels, f.Panel), with(p.lines, f.Line), with(p.limits, f.Limit)
	}
	return Figure{Name: "predicted", Title: "Predicted, not measured: " + title, Alt: p.words(title), Source: "predicted by " + source,
		Width: max(vg.Length(len(p.panels))*3.6*vg.Inch, 6.4*vg.Inch), Height: 4.6 * vg.Inch, draw: p.draw}
}

func with(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

type forecasts struct {
	all                   []Forecast
	panels, lines, limits []string
}

func (p forecasts) of(panel, line string) []Forecast {
	var out []Forecast
	for _, f := range p.all {
		if f.Panel == panel && f.Line == line {
			out = append(out, f)
		}
	}
	return out
}

func (p forecasts) words(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Predicted, not measured: %s. ", title)
	for _, panel := range p.panels {
		for _, line := range p.lines {
			fmt.Fprintf(&b, "%s, %s: ", panel, line)
			for i, f := range p.of(panel, line) {
				fmt.Fprintf(&b, "%sEP%d %.4g us (%s)", []string{"", ", "}[min(i, 1)], f.Ranks, f.Micros, f.Limit)
			}
			b.WriteString(". ")
		}
	}
	return b.String()
}

func (p forecasts) draw(c draw.Canvas) {
	var key legend
	for i, name := range p.lines {
		line := styleOf(i).line()
		key.add(name, &line, nil)
	}
	for i, name := range p.limits {
		mark := draw.GlyphStyle{Color: ink, Radius: vg.Points(3), Shape: glyphs[i%len(glyphs)]}
		key.add("limit: "+name, nil, &mark)
	}
	c = key.below(c)
	width := (c.Max.X - c.Min.X) / vg.Length(len(p.panels))
	for i, panel := range p.panels {
		left := vg.Length(i) * width
		p.panel(panel, draw.Crop(c, left, left+width-(c.Max.X-c.Min.X), 0, 0))
	}
}

func (p forecasts) panel(name string, c draw.Canvas) {
	c = draw.Crop(c, 4, -4, 2, -4)
	st := textStyle(labelSize, ink)
	st.YAlign = draw.YTop
	c.FillText(st, vg.Point{X: c.Min.X, Y: c.Max.Y}, elide(name, st, c.Max.X-c.Min.X))
	plot := newPlot("ranks", "predicted time of one call (us)")
	var ranks []int
	var times []float64
	for _, f := range p.all {
		if f.Panel == name {
			ranks, times = append(ranks, f.Ranks), append(times, f.Micros)
		}
	}
	logTokens(&plot.X, ranks)
	logTime(&plot.Y, times)
	for i := len(p.lines) - 1; i >= 0; i-- {
		p.line(plot, styleOf(i), p.of(name, p.lines[i]))
	}
	plot.Draw(draw.Crop(c, 0, 0, 0, -1.5*labelSize))
}

func (p forecasts) line(to panel, st style, points []Forecast) {
	var xys plotter.XYs
	for _, f := range points {
		xys = append(xys, plotter.XY{X: float64(f.Ranks), Y: clamp(f.Micros, &to.Y)})
	}
	to.Add(&plotter.Line{XYs: xys, LineStyle: st.line()})
	for i, f := range points {
		shape := glyphs[slices.Index(p.limits, f.Limit)%len(glyphs)]
		to.Add(&plotter.Scatter{XYs: xys[i : i+1], GlyphStyle: draw.GlyphStyle{Color: st.color, Radius: vg.Points(3), Shape: shape}})
	}
}
