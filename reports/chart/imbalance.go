package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
)

// Load holds the load of experts and ranks under one routing.
type Load struct {
	Title   string
	Name    string
	Experts []int       // received tokens
	Ranks   []int       // for each rank: received tokens, counted once for each of their experts
	Traffic [][]float64 // [source rank][destination rank] tokens, each counted once
}

func imbalance(_ []*reports.Loaded, o Options) []Figure {
	var out []Figure
	for _, l := range o.Loads {
		out = append(out, Figure{
			Name: slug("imbalance", l.Name), Title: "Load: " + l.Title, Alt: l.alt(),
			Width: 6.8 * vg.Inch, Height: 3.6 * vg.Inch, draw: l.draw,
		})
	}
	return out
}

func (l Load) draw(c draw.Canvas) {
	split := (c.Max.X - c.Min.X) * 0.52
	left, right := draw.Crop(c, 0, split-(c.Max.X-c.Min.X)-6, 0, 0), draw.Crop(c, split+6, 0, 0, 0)
	half := (left.Max.Y - left.Min.Y) / 2
	l.drawLoad(draw.Crop(left, 0, 0, half+3, 0), "experts, busiest first", slices.Clone(l.Experts), true)
	l.drawLoad(draw.Crop(left, 0, 0, 0, -half-3), "rank", l.Ranks, false)
	l.drawTraffic(right)
}

func (l Load) drawLoad(c draw.Canvas, label string, load []int, sorted bool) {
	if sorted {
		slices.SortFunc(load, func(a, b int) int { return b - a })
	}
	p := newPlot(label, "tokens received")
	top, mean := topAndMean(load)
	fromZero(&p.Y, top*1.35)
	p.X.Min, p.X.Max = -0.7, float64(len(load))-0.3
	p.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return wholeTicks(roundTicks(max(lo, 0), hi)) })
	p.Y.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return everyOther(roundTicks(lo, hi)) })
	p.Add(bars{load, palette[0]})
	line := draw.LineStyle{Color: accent, Width: vg.Points(1.4), Dashes: dashes[1]}
	p.Add(level(p.Plot, mean, line))
	p.Draw(c)
	note := textStyle(tickSize, ink)
	note.XAlign, note.YAlign = draw.XRight, draw.YTop
	c.FillText(note, vg.Point{X: c.Max.X, Y: c.Max.Y}, fmt.Sprintf("max/mean %.2f (dashed: mean)", ratio(top, mean)))
}

func topAndMean(load []int) (top, mean float64) {
	for _, n := range load {
		top, mean = max(top, float64(n)), mean+float64(n)
	}
	return top, mean / float64(max(len(load), 1))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func wholeTicks(ticks []plot.Tick) []plot.Tick {
	return slices.DeleteFunc(ticks, func(t plot.Tick) bool { return t.Value != math.Trunc(t.Value) })
}

func everyOther(ticks []plot.Tick) []plot.Tick {
	for i := range ticks {
		if i%2 == 1 {
			ticks[i].Label = ""
		}
	}
	return ticks
}

type bars struct {
	heights []int
	color   interface{ RGBA() (r, g, b, a uint32) }
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	half := 0.4
	if len(b.heights) > 64 {
		half = 0.5
	}
	c.SetColor(b.color)
	for i, n := range b.heights {
		r := vg.Rectangle{Min: vg.Point{X: tx(float64(i) - half), Y: ty(0)}, Max: vg.Point{X: tx(float64(i) + half), Y: ty(float64(n))}}
		c.Fill(r.Path())
	}
}

func (l Load) drawTraffic(c draw.Canvas) {
	n := len(l.Traffic)
	m := matrix{cols: n, rows: n}
	top := 0.0
	for _, row := range l.Traffic {
		top = max(top, slices.Max(append(row, 0)))
	}
	var names []string
	for i, row := range l.Traffic {
		names = append(names, fmt.Sprint(i))
		for j, v := range row {
			q := cell{col: j, row: n - 1 - i, value: ratio(v, top)}
			if n <= 16 {
				q.text = fmt.Sprintf("%.0f", v)
			}
			m.list = append(m.list, q)
		}
	}
	reversed := slices.Clone(names)
	slices.Reverse(reversed)
	note := textStyle(tickSize, ink)
	note.YAlign = draw.YTop
	c.FillText(note, vg.Point{X: c.Min.X, Y: c.Max.Y}, "tokens sent, each token once to a rank")
	drawMatrix(draw.Crop(c, 0, 0, 0, -1.6*tickSize), m, axisNames{"to rank", names}, axisNames{"from rank", reversed})
}

func (l Load) alt() string {
	most, expert := topAndMean(l.Experts)
	top, rank := topAndMean(l.Ranks)
	return fmt.Sprintf("%s. The busiest of %d experts receives %.0f tokens, %.2f times the mean; the busiest of %d ranks receives %.2f times the mean.",
		l.Title, len(l.Experts), most, ratio(most, expert), len(l.Ranks), ratio(top, rank))
}

// LoadOf computes the load of experts and ranks.
func LoadOf(w *workloads.Workload) Load {
	p := w.Problem
	l := Load{
		Title: fmt.Sprintf("%s, %d tokens a rank, %d experts, top-%d, %d ranks", w.Spec, p.Tokens, p.Experts, p.TopK, p.Ranks),
		Name:  slug(w.Spec, fmt.Sprintf("t%d-e%d-k%d-r%d", p.Tokens, p.Experts, p.TopK, p.Ranks)),
		Ranks: make([]int, p.Ranks),
	}
	for e, n := range w.TotalCounts() {
		l.Experts = append(l.Experts, int(n))
		l.Ranks[e/p.LocalExperts()] += int(n)
	}
	for _, row := range w.Messages(workloads.Dedup) {
		sent := make([]float64, len(row))
		for i, n := range row {
			sent[i] = float64(n)
		}
		l.Traffic = append(l.Traffic, sent)
	}
	return l
}

// Loads computes the load under each routing of the runs, at the largest token count of each shape. It draws the
// routings again from their seeds. If this fails for a routing, `missing` has an error text.
func Loads(runs []*reports.Loaded) (loads []Load, missing []string) {
	type id struct {
		group   group
		routing string
	}
	largest := map[id]*reports.Case{}
	var order []id
	for _, l := range ownRuns(runs) {
		for _, c := range l.Cases {
			g := groupOf(c.Problem, "")
			g.Op, g.Dispatch = "", "" // all ops and dtypes share a routing
			k := id{g, c.Routing}
			old := largest[k]
			if old == nil {
				order = append(order, k)
			}
			if old == nil || c.Problem.Tokens > old.Problem.Tokens {
				largest[k] = c
			}
		}
	}
	for _, k := range order {
		w, err := redraw(largest[k])
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		loads = append(loads, LoadOf(w))
	}
	return loads, missing
}

func redraw(c *reports.Case) (*workloads.Workload, error) {
	return workloads.Draw(c.Routing, c.Problem, c.Seed)
}
