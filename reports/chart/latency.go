package chart

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// latency draws time against tokens.
func latency(runs []*reports.Loaded, o Options) []Figure {
	var out []Figure
	for _, g := range groups(runs) {
		all := latencySeries(runs, g, o)
		if len(all) == 0 {
			continue
		}
		out = append(out, Figure{
			Name: slug("latency", g.slug()), Title: g.title("Latency"), Alt: latencyAlt(g, all),
			Width: 6.4 * vg.Inch, Height: 4.2 * vg.Inch, draw: func(c draw.Canvas) { drawLatency(c, all) },
		})
	}
	return distinct(out)
}

func drawLatency(c draw.Canvas, all []series) {
	p := newPlot("tokens per rank", "time of one call (us)")
	logTokens(&p.X, tokensOf(all))
	logTime(&p.Y, times(all))
	var key legend
	for i := len(all) - 1; i >= 0; i-- { // the first series on top
		all[i].addTo(p.Plot)
	}
	for i := range all {
		key.add(all[i].label, &all[i].line, all[i].mark)
	}
	p.Draw(key.below(c))
}

// latencySeries collects the lines of one picture: routings, then peers, then
// the default and the floor of the first routing.
func latencySeries(runs []*reports.Loaded, g group, o Options) []series {
	var b seriesBuilder
	for _, l := range runs {
		for _, c := range l.Cases {
			if groupOf(c.Problem) == g {
				b.addCase(l, c, runs, o)
			}
		}
	}
	return b.finish()
}

// seriesBuilder gathers points by label, keeping the order labels came in.
type seriesBuilder struct {
	index  map[string]int
	ours   []series
	others []series // peers
	base   series   // the default under the first routing
	floor  series
	first  string // label of the first routing
}

func (b *seriesBuilder) addCase(l *reports.Loaded, c *reports.Case, runs []*reports.Loaded, o Options) {
	if b.index == nil {
		b.index = map[string]int{}
	}
	seen := map[string]bool{}
	for _, e := range c.Entries {
		if e.Role == record.Peer && e.OK() && !seen[e.Label()] {
			seen[e.Label()] = true // entries come fastest first
			b.others = b.put(b.others, peerLabel(c, e), micros(c, e))
		}
	}
	winner := c.Winner()
	if winner == nil {
		return
	}
	label := caseLabel(l, c, runs)
	b.ours = b.put(b.ours, label, micros(c, winner))
	if b.first == "" {
		b.first = label
	}
	if label != b.first {
		return
	}
	if d := c.Default(); d != nil && d.OK() {
		b.base.label = "default, " + label
		b.base.points = append(b.base.points, micros(c, d))
	}
	wire := o.Wire
	if wire == 0 {
		wire = reports.Wire(l.Run.Machine)
	}
	if f := c.FloorSeconds(wire) * 1e6; finite(f) {
		b.floor.label = fmt.Sprintf("wire floor, %s (%.4g GB/s)", c.Routing, wire)
		b.floor.points = append(b.floor.points, point{c.Problem.Tokens, f, f, f})
	}
}

func (b *seriesBuilder) put(list []series, label string, q point) []series {
	i, ok := b.index[label]
	if !ok {
		i = len(list)
		b.index[label] = i
		list = append(list, series{label: label})
	}
	list[i].points = append(list[i].points, q)
	return list
}

// finish styles the lines and sorts their points.
func (b *seriesBuilder) finish() []series {
	all := append(b.ours, b.others...)
	for i := range all {
		st := styleOf(i)
		mark := st.mark()
		all[i].line, all[i].mark = st.line(), &mark
	}
	if len(b.base.points) > 0 {
		b.base.line = draw.LineStyle{Color: muted, Width: vg.Points(1), Dashes: []vg.Length{4, 3}}
		all = append(all, b.base)
	}
	if len(b.floor.points) > 0 {
		b.floor.line = draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{1, 2}}
		all = append(all, b.floor)
	}
	for i := range all {
		slices.SortStableFunc(all[i].points, func(a, b point) int { return cmp.Compare(a.tokens, b.tokens) })
	}
	return all
}

// caseLabel names a case of ours among the runs of one picture.
func caseLabel(l *reports.Loaded, c *reports.Case, runs []*reports.Loaded) string {
	label := c.Routing
	if c.Problem.Precision == ep.Reduced {
		label += ", any results"
	}
	if len(ours(runs)) > 1 {
		return l.Name() + ": " + label
	}
	return label
}

// ours lists the runs that measured something themselves.
func ours(runs []*reports.Loaded) []*reports.Loaded {
	return slices.DeleteFunc(slices.Clone(runs), func(l *reports.Loaded) bool {
		return !slices.ContainsFunc(l.Cases, func(c *reports.Case) bool { return c.Best() != nil })
	})
}

func peerLabel(c *reports.Case, e *reports.Entry) string {
	s := e.Label()
	if c.Problem.Op != ep.Combine {
		s += " " + string(c.Problem.Dispatch)
	}
	return s + " (" + string(c.Problem.Mode) + ", " + e.Clock + ")"
}

func (g group) slug() string {
	return slug(string(g.op), string(g.format), fmt.Sprintf("h%d-e%d-k%d-r%d", g.hidden, g.experts, g.topK, g.ranks))
}

func (g group) title(what string) string {
	s := fmt.Sprintf("%s of %s", what, g.op)
	if g.format != "" {
		s += " " + string(g.format)
	}
	return s + fmt.Sprintf(": hidden %d, %d experts, top-%d, %d ranks", g.hidden, g.experts, g.topK, g.ranks)
}

func latencyAlt(g group, all []series) string {
	s := g.title("Latency") + ". "
	for _, l := range all {
		first, last := l.points[0], l.points[len(l.points)-1]
		s += fmt.Sprintf("%s: %.4g us at %d tokens to %.4g us at %d. ", l.label, first.mid, first.tokens, last.mid, last.tokens)
	}
	return s
}

// distinct numbers figures that would have the same file name.
func distinct(figures []Figure) []Figure {
	seen := map[string]int{}
	for i := range figures {
		name := figures[i].Name
		if seen[name]++; seen[name] > 1 {
			figures[i].Name = fmt.Sprintf("%s-%d", name, seen[name])
		}
	}
	return figures
}

func rgba(l draw.LineStyle) color.RGBA {
	r, g, b, a := l.Color.RGBA()
	return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), uint8(a >> 8)}
}
