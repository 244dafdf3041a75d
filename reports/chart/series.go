package chart

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

type point struct {
	tokens      int
	mid, lo, hi float64
	undecided   bool    // drawn hollow, without a line
	spread      float64 // A/A spread as a fraction; 0 if unknown
}

type series struct {
	label  string
	points []point
	line   draw.LineStyle
	mark   *draw.GlyphStyle // nil: neither markers nor intervals
	shift  float64          // factor on X; 0 means 1
}

func (s series) x(q point) float64 { return tokenX(q.tokens) * cmp.Or(s.shift, 1) }

func (s series) decided() (out []point) {
	for _, q := range s.points {
		if !q.undecided {
			out = append(out, q)
		}
	}
	return out
}

// dodge moves series apart if all their points have the same token count.
func dodge(all []series) {
	if tokens := tokensOf(all); len(all) < 2 || slices.Min(tokens) != slices.Max(tokens) {
		return
	}
	step := math.Pow(1.5, 2/float64(len(all)))
	for i := range all {
		all[i].shift = math.Pow(min(step, 1.15), float64(i)-float64(len(all)-1)/2)
	}
}

func (s series) addTo(p *plot.Plot) {
	var line, hollow plotter.XYs
	for _, q := range s.points {
		at := plotter.XY{X: s.x(q), Y: clamp(q.mid, &p.Y)}
		if q.undecided {
			hollow = append(hollow, at)
		} else {
			line = append(line, at)
		}
	}
	if s.mark != nil {
		for _, band := range s.bands(&p.Y) {
			p.Add(&plotter.Polygon{XYs: []plotter.XYs{band}, Color: translucent(color.RGBAModel.Convert(s.line.Color).(color.RGBA), 0.18)})
		}
		p.Add(errorBars{s})
	}
	switch {
	case len(line) > 1:
		p.Add(&plotter.Line{XYs: line, LineStyle: s.line})
	case len(line) == 1 && s.mark == nil:
		p.Add(piece{line[0], s.line})
	}
	if s.mark != nil {
		p.Add(&plotter.Scatter{XYs: line, GlyphStyle: *s.mark})
		p.Add(&plotter.Scatter{XYs: hollow, GlyphStyle: undecidedMark(s.line.Color)})
	}
}

func undecidedMark(c color.Color) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: vg.Points(4), Shape: diamond{}}
}

type diamond struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (diamond) DrawGlyph(c *draw.Canvas, st draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: st.Color, Width: vg.Points(1.2)})
	var p vg.Path
	p.Move(vg.Point{X: at.X, Y: at.Y + st.Radius})
	p.Line(vg.Point{X: at.X + st.Radius, Y: at.Y})
	p.Line(vg.Point{X: at.X, Y: at.Y - st.Radius})
	p.Line(vg.Point{X: at.X - st.Radius, Y: at.Y})
	p.Close()
	c.Stroke(p)
}

func (s series) bands(y *plot.Axis) (out []plotter.XYs) {
	var run []point
	end := func() {
		if len(run) > 1 {
			out = append(out, s.outline(run, y))
		}
		run = nil
	}
	for _, q := range s.decided() {
		if q.hi > q.lo {
			run = append(run, q)
		} else {
			end()
		}
	}
	end()
	return out
}

func (s series) outline(run []point, y *plot.Axis) (band plotter.XYs) {
	for _, q := range run {
		band = append(band, plotter.XY{X: s.x(q), Y: clamp(q.hi, y)})
	}
	for _, q := range slices.Backward(run) {
		band = append(band, plotter.XY{X: s.x(q), Y: clamp(q.lo, y)})
	}
	return band
}

type piece struct {
	at   plotter.XY
	line draw.LineStyle
}

// Plot implements plot.Plotter.
func (e piece) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	x, y := tx(e.at.X), ty(e.at.Y)
	c.StrokeLine2(e.line, x-sampleWidth/2, y, x+sampleWidth/2, y)
}

// errorBars draws each point's interval, because overlapping bands look alike in grey.
type errorBars struct{ series }

// Plot implements plot.Plotter.
func (e errorBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	e.line.Dashes = nil
	e.line.Width /= 2
	for _, q := range e.points {
		x := tx(e.x(q))
		c.StrokeLine2(e.line, x, ty(clamp(q.lo, &p.Y)), x, ty(clamp(q.hi, &p.Y)))
	}
}

// group holds the fields that all problems in one picture share.
type group struct {
	ep.Problem
	work string // steps inside the measured time; "" if they are the same for all libraries
}

// groupOf returns a problem's group. It clears the fields in which problems of one picture may differ.
func groupOf(p ep.Problem, work string) group {
	if work != "" {
		p.Layout = ""
	}
	p.Mode, p.Tokens, p.MaxTokens, p.Combine, p.Precision = "", 0, 0, "", ep.Full
	if p.Op == ep.Combine {
		p.Dispatch = ""
	}
	return group{Problem: p}
}

// workOf returns the timed steps of a case's winner, "" if unknown.
func workOf(l *reports.Loaded, c *reports.Case) string {
	w := c.Winner()
	if w == nil {
		return ""
	}
	return l.Run.Work(c.Problem.Op, w.Config).Key(c.Problem)
}

// has reports whether a case belongs to the group. A case whose timed steps are unknown may belong to any group.
func (g group) has(l *reports.Loaded, c *reports.Case) bool {
	w := workOf(l, c)
	if groupOf(c.Problem, w).Problem != g.Problem {
		return false
	}
	return g.work == "" || w == "" || w == g.work
}

func groups(runs []*reports.Loaded) []group {
	var out []group
	works := map[group][]string{}
	for _, l := range runs {
		for _, c := range l.Cases {
			w := workOf(l, c)
			g := groupOf(c.Problem, w)
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
			if w != "" && !slices.Contains(works[g], w) {
				works[g] = append(works[g], w)
			}
		}
	}
	var split []group
	for _, g := range out {
		if len(works[g]) < 2 {
			split = append(split, g)
			continue
		}
		for _, w := range works[g] {
			split = append(split, group{g.Problem, w})
		}
	}
	return split
}

func (s series) highest() point {
	points := s.decided()
	if points == nil {
		points = s.points
	}
	return slices.MaxFunc(points, func(a, b point) int { return cmp.Compare(a.mid, b.mid) })
}

func overTokens(y string, all []series) panel {
	p := newPlot("tokens per rank", y)
	logTokens(&p.X, tokensOf(all))
	return p
}

func values(all []series) []float64 {
	var out []float64
	for _, s := range all {
		for _, q := range s.points {
			out = append(out, q.mid, q.lo, q.hi)
		}
	}
	return out
}

func tokensOf(all []series) []int {
	var out []int
	for _, s := range all {
		for _, q := range s.points {
			out = append(out, q.tokens)
		}
	}
	return out
}

func micros(c *reports.Case, e *reports.Entry) point {
	m := e.Median
	return point{tokens: c.Problem.Tokens, mid: m.Mid * 1e6, lo: m.Low * 1e6, hi: m.High * 1e6}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
