package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// heatmap draws the best time for each pair of values of two parameters.
func heatmap(c *reports.Case, o Options) *Figure {
	x, y := axesOf(c, o)
	if x == "" || y == "" {
		return nil
	}
	h := gridOf(c, x, y)
	if len(h.xs) < 2 && len(h.ys) < 2 || h.timed == 0 {
		return nil
	}
	return &Figure{Alt: h.alt(c), Width: 6.4 * vg.Inch, Height: vg.Length(1.9+0.3*float64(min(len(h.ys), 14))) * vg.Inch, draw: h.draw}
}

type grid struct {
	x, y   string
	xs, ys []ep.Value
	points map[[2]ep.Value]gridPoint
	best   float64
	timed  int
	wins   [2]ep.Value
}

type gridPoint struct {
	seconds float64   // NaN if no config has times
	status  ep.Status // of the first failed config, if `seconds` is NaN
}

func gridOf(c *reports.Case, x, y string) grid {
	h := grid{x: x, y: y, points: map[[2]ep.Value]gridPoint{}}
	for _, e := range c.Entries {
		vx, vy := e.Config.Values[x], e.Config.Values[y]
		if vx == "" || vy == "" || e.Role == record.Twin || e.Role == record.Peer {
			continue
		}
		h.add([2]ep.Value{vx, vy}, e)
	}
	if winner := c.Winner(); winner != nil {
		h.wins = [2]ep.Value{winner.Config.Values[x], winner.Config.Values[y]}
	}
	slices.SortFunc(h.xs, reports.CompareValues)
	slices.SortFunc(h.ys, reports.CompareValues)
	return h
}

// add adds an entry to the grid. The caller must add faster entries before slower ones.
func (h *grid) add(at [2]ep.Value, e *reports.Entry) {
	if !slices.Contains(h.xs, at[0]) {
		h.xs = append(h.xs, at[0])
	}
	if !slices.Contains(h.ys, at[1]) {
		h.ys = append(h.ys, at[1])
	}
	s, seen := h.points[at]
	switch {
	case e.OK() && (!seen || math.IsNaN(s.seconds)):
		h.points[at] = gridPoint{seconds: e.Level}
		h.timed++
		if h.best == 0 || e.Level < h.best {
			h.best = e.Level
		}
	case !seen:
		h.points[at] = gridPoint{seconds: math.NaN(), status: e.Status}
	}
}

// darkest limits the colours: cells with this loss or a larger one have the darkest colour. A loss is
// (time - best time) / best time.
const darkest = 1.0

func (h grid) draw(c draw.Canvas) {
	m := matrix{cols: len(h.xs), rows: len(h.ys)}
	for i, x := range h.xs {
		for j, y := range h.ys {
			s, ok := h.points[[2]ep.Value{x, y}]
			if !ok {
				continue
			}
			q := cell{col: i, row: j, value: math.NaN(), boxed: [2]ep.Value{x, y} == h.wins}
			if math.IsNaN(s.seconds) {
				q.crossed, q.text = true, string(s.status)
			} else {
				over := s.seconds/h.best - 1
				q.value, q.text = math.Sqrt(min(over, darkest)/darkest), lossText(over)
			}
			m.list = append(m.list, q)
		}
	}
	drawMatrix(h.key(c), m, axisNames{h.x, wordsOf(h.xs)}, axisNames{h.y, wordsOf(h.ys)})
}

func (h grid) key(c draw.Canvas) draw.Canvas {
	note := textStyle(tickSize, muted)
	note.YAlign = draw.YBottom
	c.FillText(note, c.Min, elide("crossed: every config failed, the text is the status of the first; blank: no config was measured", note, c.Max.X-c.Min.X))
	c = draw.Crop(c, 0, 0, 1.5*tickSize, 0)
	note.YAlign = draw.YCenter
	y := c.Min.Y + tickSize/2
	x := c.Min.X
	say := func(text string) {
		c.FillText(note, vg.Point{X: x, Y: y}, text)
		x += note.Width(text) + 6
	}
	say(fmt.Sprintf("least time in the cell, %% above the fastest (%s us):", reports.Micros(h.best).Text))
	const steps, width = 24, 4 * vg.Length(1)
	say("0")
	for i := range steps {
		c.SetColor(shade(float64(i) / (steps - 1)))
		c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - tickSize/2}, Max: vg.Point{X: x + width, Y: y + tickSize/2}}.Path())
		x += width
	}
	x += 6
	say(fmt.Sprintf("%.0f and more", 100*darkest))
	c.StrokeLines(draw.LineStyle{Color: ink, Width: vg.Points(2)}, frame(vg.Rectangle{Min: vg.Point{X: x, Y: y - tickSize/2}, Max: vg.Point{X: x + tickSize, Y: y + tickSize/2}}))
	x += tickSize + 4
	say("winner")
	return draw.Crop(c, 0, 0, 1.8*tickSize, 0)
}

func lossText(over float64) string {
	switch pct := over * 100; {
	case pct < 0.05:
		return "0"
	case pct < 9.95:
		return fmt.Sprintf("%.1f", pct)
	default:
		return fmt.Sprintf("%.0f", pct)
	}
}

func wordsOf(vs []ep.Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = string(v)
	}
	return out
}

// axesOf picks the two parameters for the axes. It takes those that `o` names, then SMs, blocks and threads, then
// those with the most values.
func axesOf(c *reports.Case, o Options) (x, y string) {
	counts := map[string]map[ep.Value]bool{}
	for _, e := range c.Entries {
		for n, v := range e.Config.Values {
			if counts[n] == nil {
				counts[n] = map[ep.Value]bool{}
			}
			counts[n][v] = true
		}
	}
	var names []string
	for n := range counts {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(counts[b]), len(counts[a])), strings.Compare(a, b))
	})
	names = slices.DeleteFunc(names, func(n string) bool { return len(counts[n]) < 2 })
	x, y = pick(names, o.X, ""), ""
	y = pick(names, o.Y, x)
	return x, y
}

func rank(name string) int {
	for i, suffix := range []string{"sms", "blocks", "threads"} {
		if name == suffix || strings.HasSuffix(name, "."+suffix) {
			return i
		}
	}
	return 3
}

func pick(names []string, want, taken string) string {
	for _, n := range names {
		if n != taken && (want == "" || n == want) {
			return n
		}
	}
	return ""
}

func (h grid) alt(c *reports.Case) string {
	return fmt.Sprintf("Heat map for %s: %s against %s, %d combinations timed, fastest %s us, the winner has %s=%s and %s=%s.",
		c.Title(), h.y, h.x, h.timed, reports.Micros(h.best).Text, h.x, h.wins[0], h.y, h.wins[1])
}

func problemSlug(p ep.Problem) string {
	precision := ""
	if p.Precision != ep.Full {
		precision = p.Precision.String()
	}
	return slug(string(p.Op), string(p.Dispatch), fmt.Sprintf("t%d", p.Tokens), precision)
}
