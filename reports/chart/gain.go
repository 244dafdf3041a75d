package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

// gain draws the default's time divided by the winner's.
var gain = groupKind{"gain", "Gain", 3.8, (*seriesBuilder).addGain, drawGain, func(s series) string {
	var open []string
	for _, q := range s.points {
		if q.undecided {
			open = append(open, fmt.Sprintf("%.2fx [%.2f, %.2f] at %d tokens", q.mid, q.lo, q.hi, q.tokens))
		}
	}
	undecided := ""
	if open != nil {
		undecided = "; undecided: " + strings.Join(open, ", ")
	}
	best := s.highest()
	switch {
	case len(open) == len(s.points):
		return "no case is decided" + undecided
	case best.lo == 1 && best.hi == 1:
		return "the default won everywhere" + undecided
	}
	return fmt.Sprintf("largest gain %.2fx [%.2f, %.2f] at %d tokens", best.mid, best.lo, best.hi, best.tokens) + undecided
}}

func (b *seriesBuilder) addGain(l *reports.Loaded, c *reports.Case) {
	if c.Search == nil || !c.Search.OK() {
		return
	}
	d := c.Search.Decision
	g, undecided := d.Gain, d.Verdict == record.Undecided && d.ChallengerGain.Mid > 0 && finite(d.ChallengerGain.Mid)
	if undecided {
		g = d.ChallengerGain // of the best config besides the default
	}
	b.ours = addPoint(b.ours, b.label(l, c), point{tokens: c.Problem.Tokens, mid: g.Mid, lo: orElse(g.Low, g.Mid), hi: orElse(g.High, g.Mid), undecided: undecided, spread: c.Spread()})
}

func orElse(v, otherwise float64) float64 {
	if finite(v) {
		return v
	}
	return otherwise
}

// linearGains is the largest gain for which the axis is linear.
const linearGains = 2.5

func drawGain(c draw.Canvas, all []series) {
	p := overTokens("gain over the default (x)", all)
	spread, undecided := 0.0, false
	for _, s := range all {
		for _, q := range s.points {
			spread, undecided = max(spread, q.spread), undecided || q.undecided
		}
	}
	gainAxis(&p.Y, append(values(all), 1+spread, 1/(1+spread)))
	if spread > 0 {
		p.Add(&plotter.Polygon{XYs: []plotter.XYs{{{X: p.X.Min, Y: 1 / (1 + spread)}, {X: p.X.Max, Y: 1 / (1 + spread)}, {X: p.X.Max, Y: 1 + spread}, {X: p.X.Min, Y: 1 + spread}}}, Color: shaded})
	}
	st := draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{1, 2}}
	p.Add(level(p.Plot, 1, st))
	addAll(p, all)
	var key legend
	key.add("1: as fast as the default", &st, nil)
	if undecided {
		mark := undecidedMark(ink)
		key.add("undecided: the best other config", nil, &mark)
	}
	if spread > 0 {
		mark := draw.GlyphStyle{Color: rule, Radius: vg.Points(5), Shape: draw.BoxGlyph{}}
		key.add(fmt.Sprintf("A/A spread: the default differs from itself by %.2g %%", spread*100), nil, &mark)
	}
	p.drawLabelled(c, all, key)
}

func gainAxis(a *plot.Axis, values []float64) {
	lo, hi := slices.Min(values), slices.Max(values)
	if hi > linearGains {
		logTime(a, values)
		return
	}
	room := max(0.05, (hi-lo)*0.08)
	a.Min, a.Max = lo-room, hi+room
	a.Tick.Marker = plot.TickerFunc(roundTicks)
}

var bandwidth = groupKind{"bandwidth", "Bandwidth", 3.6, (*seriesBuilder).addBandwidth, drawBandwidth, func(s series) string { return fmt.Sprintf("largest %.1f GB/s", s.highest().mid) }}

func (b *seriesBuilder) addBandwidth(l *reports.Loaded, c *reports.Case) {
	winner := c.Winner()
	if winner == nil || winner.Median.Mid <= 0 || c.Bytes() == 0 {
		return
	}
	at := func(e *reports.Entry) point {
		m, bytes := e.Median, float64(c.Bytes())/1e9
		return point{tokens: c.Problem.Tokens, mid: bytes / m.Mid, lo: bytes / orElse(m.High, m.Mid), hi: bytes / orElse(m.Low, m.Mid)}
	}
	label := b.label(l, c)
	b.ours = addPoint(b.ours, label, at(winner))
	b.addDefault(c, label, at)
	if name, gbps := b.options.Speeds.Of(l.Run.Machine).LimitName(c.Problem.Op); gbps > 0 {
		b.limit.label = fmt.Sprintf("%s, %.4g GB/s", name, gbps)
		b.limit.points = append(b.limit.points, point{tokens: c.Problem.Tokens, mid: gbps, lo: gbps, hi: gbps})
	}
}

func drawBandwidth(c draw.Canvas, all []series) {
	p := overTokens("GB/s of the busiest rank", all)
	fromZero(&p.Y, slices.Max(values(all)))
	addAll(p, all)
	st := textStyle(tickSize, muted)
	st.YAlign = draw.YBottom
	note := broken("GB/s (10^9): bytes of the busiest rank, each token once to each rank that needs it, divided by the slowest rank's time", st, c.Max.X-c.Min.X)
	for _, line := range slices.Backward(note) {
		c.FillText(st, c.Min, line)
		c = draw.Crop(c, 0, 0, labelRow, 0)
	}
	p.drawLabelled(draw.Crop(c, 0, 0, 0.7*tickSize, 0), all, nil)
}

// wire draws the wire limit as a share of each winner's time.
var wire = groupKind{"wire", "Per cent of the wire limit", 3.6, (*seriesBuilder).addShare, drawWire, func(s series) string { return fmt.Sprintf("largest %.1f %%", s.highest().mid) }}

var memory = groupKind{"memory", "Per cent of the memory limit", 3.6, (*seriesBuilder).addMemoryShare, drawMemory, wire.words}

func (b *seriesBuilder) addShare(l *reports.Loaded, c *reports.Case) {
	b.share(l, c, c.WireLimit(b.options.Speeds.Of(l.Run.Machine).Link))
}

func (b *seriesBuilder) addMemoryShare(l *reports.Loaded, c *reports.Case) {
	b.share(l, c, c.MemoryLimit(b.options.Speeds.Of(l.Run.Machine).Memory))
}

func (b *seriesBuilder) share(l *reports.Loaded, c *reports.Case, limit float64) {
	winner := c.Winner()
	if winner == nil || math.IsNaN(limit) || winner.Median.Mid <= 0 {
		return
	}
	m := winner.Median
	b.ours = addPoint(b.ours, b.label(l, c), point{tokens: c.Problem.Tokens, mid: 100 * limit / m.Mid, lo: 100 * limit / m.High, hi: 100 * limit / max(m.Low, m.Mid/2)})
}

func drawWire(c draw.Canvas, all []series) {
	drawShare(c, all, "wire limit", "each token once to each rank, at the link's nominal speed")
}

func drawMemory(c draw.Canvas, all []series) {
	drawShare(c, all, "memory limit", "rows in and out once, at the memory's nominal speed")
}

func drawShare(c draw.Canvas, all []series, name, what string) {
	p := overTokens("of the "+name+" (%)", all)
	fromZero(&p.Y, slices.Max(append(values(all), 100)))
	addAll(p, all)
	var key legend
	limit := draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{1, 2}}
	p.Add(level(p.Plot, 100, limit))
	key.add(name+": "+what, &limit, nil)
	p.drawLabelled(c, all, key)
}

func level(p *plot.Plot, y float64, st draw.LineStyle) *plotter.Line {
	return &plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: y}, {X: p.X.Max, Y: y}}, LineStyle: st}
}
