package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

var latency = groupKind{"latency", "Time of one call", 4.2, (*seriesBuilder).addTimes, drawLatency, func(s series) string {
	var at []string
	for _, q := range s.points {
		at = append(at, fmt.Sprintf("%s us at %d", reports.Micros(q.mid/1e6).Text, q.tokens))
	}
	return strings.Join(at, ", ") + " tokens"
}}

func drawLatency(c draw.Canvas, all []series) {
	p := overTokens("time of one call (us)", all)
	logTime(&p.Y, values(all))
	addAll(p, all)
	p.drawLabelled(c, all, nil)
}

// addAll adds all series to the plot. It adds the first series last, so that the first series lies on top.
func addAll(p panel, all []series) {
	dodge(all)
	for i := len(all) - 1; i >= 0; i-- {
		all[i].addTo(p.Plot)
	}
}

// seriesBuilder collects points. Points with the same label form a series.
type seriesBuilder struct {
	runs    []*reports.Loaded
	options Options
	ours    []series // winners, by routing
	others  []series
	base    series // the default under the first routing
	limit   series // the wire or memory limit under the first routing
}

func (b *seriesBuilder) addTimes(l *reports.Loaded, c *reports.Case) {
	seen := map[string]bool{}
	for _, e := range c.Entries {
		if e.Role == record.Peer && e.OK() && !seen[c.Label(e)] {
			seen[c.Label(e)] = true // entries come fastest first
			b.others = addPoint(b.others, peerLabel(c, e), micros(c, e))
		}
	}
	winner := c.Winner()
	if winner == nil {
		return
	}
	label := b.label(l, c)
	b.ours = addPoint(b.ours, label, micros(c, winner))
	b.addDefault(c, label, func(d *reports.Entry) point { return micros(c, d) })
	speeds := b.options.Speeds.Of(l.Run.Machine)
	if f := c.Limit(speeds) * 1e6; finite(f) && label == b.ours[0].label {
		name, gbps := speeds.LimitName(c.Problem.Op)
		b.limit.label = fmt.Sprintf("%s, %s (%.4g GB/s)", name, c.Routing, gbps)
		b.limit.points = append(b.limit.points, point{tokens: c.Problem.Tokens, mid: f, lo: f, hi: f})
	}
}

func (b *seriesBuilder) addDefault(c *reports.Case, label string, at func(*reports.Entry) point) {
	if d := c.Default(); d != nil && d.OK() && label == b.ours[0].label {
		b.base.label = "default, " + label
		b.base.points = append(b.base.points, at(d))
	}
}

func addPoint(list []series, label string, q point) []series {
	i := slices.IndexFunc(list, func(s series) bool { return s.label == label })
	if i < 0 {
		i, list = len(list), append(list, series{label: label})
	}
	list[i].points = append(list[i].points, q)
	return list
}

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
	if len(b.limit.points) > 0 {
		b.limit.line = draw.LineStyle{Color: ink, Width: vg.Points(1.2), Dashes: []vg.Length{1, 2}}
		all = append(all, b.limit)
	}
	for i := range all {
		slices.SortStableFunc(all[i].points, func(a, b point) int { return cmp.Compare(a.tokens, b.tokens) })
	}
	return all
}

func (b *seriesBuilder) label(l *reports.Loaded, c *reports.Case) string {
	label := c.Routing
	if c.Problem.Precision == ep.Reduced {
		label += ", reduced precision"
	}
	if len(ownRuns(b.runs)) > 1 {
		return l.Name() + ": " + label
	}
	return label
}

func ownRuns(runs []*reports.Loaded) []*reports.Loaded {
	return slices.DeleteFunc(slices.Clone(runs), func(l *reports.Loaded) bool {
		return !slices.ContainsFunc(l.Cases, func(c *reports.Case) bool { return c.Best() != nil })
	})
}

func peerLabel(c *reports.Case, e *reports.Entry) string {
	s := c.Label(e)
	if c.Problem.Op != ep.Combine {
		s += " " + string(c.Problem.Dispatch)
	}
	return s + " (" + string(c.Problem.Mode) + ", " + e.Clock + ")"
}

func (g group) slug() string {
	return slug(string(g.Op), string(g.Dispatch), fmt.Sprintf("h%d-e%d-k%d-r%d", g.Hidden, g.Experts, g.TopK, g.Ranks), g.work)
}

func (g group) title(what string) string {
	s := fmt.Sprintf("%s of %s", what, g.Op)
	if g.Dispatch != "" {
		s += " " + string(g.Dispatch)
	}
	if g.work != "" {
		s += " (" + g.work + ")"
	}
	return s + fmt.Sprintf(": hidden %d, %d experts, top-%d, %d ranks", g.Hidden, g.Experts, g.TopK, g.Ranks)
}
