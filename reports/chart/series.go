package chart

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// point is one value of a series with its interval, in the units of the axes.
type point struct {
	tokens      int
	mid, lo, hi float64
}

// series is one line over token counts.
type series struct {
	label  string
	points []point
	line   draw.LineStyle
	mark   *draw.GlyphStyle // nil: a line without markers, and without intervals
}

// addTo adds to a plot the band of the intervals, the line and the markers. The X axis shows
// tokens and is logarithmic.
func (s series) addTo(p *plot.Plot) {
	var line, band plotter.XYs
	for _, q := range s.points {
		line = append(line, plotter.XY{X: tokenX(q.tokens), Y: clamp(q.mid, &p.Y)})
		band = append(band, plotter.XY{X: tokenX(q.tokens), Y: clamp(q.hi, &p.Y)})
	}
	for i := len(s.points) - 1; i >= 0; i-- {
		q := s.points[i]
		band = append(band, plotter.XY{X: tokenX(q.tokens), Y: clamp(q.lo, &p.Y)})
	}
	if s.mark != nil {
		p.Add(&plotter.Polygon{XYs: []plotter.XYs{band}, Color: translucent(color.RGBAModel.Convert(s.line.Color).(color.RGBA), 0.18)})
		p.Add(errorBars{s.points, s.line})
	}
	p.Add(&plotter.Line{XYs: line, LineStyle: s.line})
	if s.mark != nil {
		p.Add(&plotter.Scatter{XYs: line, GlyphStyle: *s.mark})
	}
}

// errorBars draws the interval of each point as a thin line, because on grey prints overlapping
// bands look alike.
type errorBars struct {
	points []point
	line   draw.LineStyle
}

// Plot implements plot.Plotter.
func (e errorBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	e.line.Dashes = nil
	e.line.Width /= 2
	for _, q := range e.points {
		x := tx(tokenX(q.tokens))
		c.StrokeLine2(e.line, x, ty(clamp(q.lo, &p.Y)), x, ty(clamp(q.hi, &p.Y)))
	}
}

// group holds the fields that all problems in one picture share.
type group struct {
	ep.Problem
	work string // the work that the times include; "" if all libraries do the same work
}

// groupOf returns the group of a problem. It leaves out token counts. It leaves out precision
// and mode, because the labels of the lines name them: other libraries are often measured
// eagerly, and epbench's kernels from a graph. It leaves out the dtype of a combine, because a
// combine always sends BF16. It leaves out the layout if work is known, because work names the
// layout.
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

// workOf returns the work that the time of a case's winner includes, "" if the run does not
// record it.
func workOf(l *reports.Loaded, c *reports.Case) string {
	w := c.Winner()
	if w == nil {
		return ""
	}
	return l.Run.Work(c.Problem.Op, w.Config).Key(c.Problem)
}

// has reports whether a case belongs into the group's picture. Imported times, whose work is
// unknown, belong into every picture of their problem.
func (g group) has(l *reports.Loaded, c *reports.Case) bool {
	w := workOf(l, c)
	if groupOf(c.Problem, w).Problem != g.Problem {
		return false
	}
	return g.work == "" || w == "" || w == g.work
}

// groups lists the groups of runs in the order of their cases. If libraries do different
// work, each kind of work is a group.
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

// highest returns the first point with the largest value.
func (s series) highest() point {
	return slices.MaxFunc(s.points, func(a, b point) int { return cmp.Compare(a.mid, b.mid) })
}

// overTokens returns an empty plot over the token counts of series.
func overTokens(y string, all []series) panel {
	p := newPlot("tokens per rank", y)
	logTokens(&p.X, tokensOf(all))
	return p
}

// values returns all values and interval ends of series.
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

// micros returns the point of an entry's median, in microseconds.
func micros(c *reports.Case, e *reports.Entry) point {
	m := e.Median
	return point{c.Problem.Tokens, m.Mid * 1e6, m.Low * 1e6, m.High * 1e6}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
