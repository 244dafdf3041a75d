// Package chart draws pictures of run results with gonum/plot.
package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf"
	_ "gonum.org/v1/plot/vg/vgsvg"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// Figure is one picture.
type Figure struct {
	Name   string // file name without extension
	Title  string
	Alt    string // the picture in words
	Lead   string // a warning about all numbers, or ""
	Source string // machine, date and run
	Width  vg.Length
	Height vg.Length
	draw   func(draw.Canvas)
}

// seriesWidth keeps text readable on a phone.
const seriesWidth = 5.2 * vg.Inch

// Formats lists the file formats of Figure.Write.
func Formats() []string { return []string{"svg", "png", "pdf"} }

// DefaultScale makes PNG pictures about 1,200 pixels wide.
const DefaultScale = 2

// Write draws the figure in one of Formats. `scale` is the resolution of png pictures as a multiple of 96 dpi.
func (f Figure) Write(w io.Writer, format string, scale float64) error {
	var b bytes.Buffer
	c, err := canvas(f.Width, f.Height, format, scale)
	if err != nil {
		return err
	}
	dc := draw.New(c)
	dc.SetColor(paper)
	dc.Fill(dc.Rectangle.Path())
	f.draw(sourced(titled(dc, f.Title, f.Lead), f.Source))
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	out := b.String()
	if format == "svg" {
		out = f.described(out)
	}
	_, err = io.WriteString(w, out)
	return err
}

func canvas(width, height vg.Length, format string, scale float64) (vg.CanvasWriterTo, error) {
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(int(96*scale)))}, nil
	}
	c, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return nil, fmt.Errorf("format: unknown %q, use one of %s", format, strings.Join(Formats(), ", "))
	}
	return c, nil
}

// described adds the alternative text and fallback fonts to an SVG.
func (f Figure) described(svg string) string {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	at := strings.Index(svg, "<svg ")
	at += 1 + strings.IndexByte(svg[at:], '>')
	return svg[:at] + "\n<desc>" + html.EscapeString(f.alt()) + "</desc>" + svg[at:]
}

func (f Figure) alt() string {
	if f.Lead == "" {
		return f.Alt
	}
	return f.Lead + ". " + f.Alt
}

// Kind is one kind of picture.
type Kind struct {
	Name string
	Doc  string
	draw func(runs []*reports.Loaded, o Options) []Figure
}

// Draw makes figures of this kind from the runs.
func (k Kind) Draw(runs []*reports.Loaded, o Options) []Figure {
	figures := k.draw(runs, o)
	seen := map[string]int{} // number of figures with each name
	for i := range figures {
		if figures[i].Source == "" {
			figures[i].Source, figures[i].Lead = sourceOf(runs...), reports.RehearsalOf(runs)
		}
		name := figures[i].Name
		if seen[name]++; seen[name] > 1 {
			figures[i].Name = fmt.Sprintf("%s-%d", name, seen[name])
		}
	}
	return figures
}

// perCase makes a Kind.draw from the function `draw`, which draws one case. For a case that it cannot draw, `draw`
// returns nil.
func perCase(name, title string, draw func(*reports.Case, Options) *Figure) func([]*reports.Loaded, Options) []Figure {
	return func(runs []*reports.Loaded, o Options) (out []Figure) {
		for _, l := range runs {
			for _, c := range l.Cases {
				if f := draw(c, o); f != nil {
					p := c.Problem
					f.Source, f.Lead = sourceOf(l), l.Run.Rehearsal()
					f.Name = slug(name, problemSlug(p), c.Routing)
					f.Title = fmt.Sprintf("%s: %s %s, %s, %s", cmp.Or(f.Title, title), reports.OpTitle(p.Op, p.Precision), p.Dispatch, ep.Tokens(p.Tokens), c.Routing)
					out = append(out, *f)
				}
			}
		}
		return out
	}
}

// groupKind is a kind with one figure for each group of problems.
type groupKind struct {
	name, title string
	height      vg.Length // inches
	add         func(*seriesBuilder, *reports.Loaded, *reports.Case)
	draw        func(draw.Canvas, []series)
	words       func(series) string
}

func (k groupKind) figures(runs []*reports.Loaded, o Options) (out []Figure) {
	for _, g := range groups(runs) {
		b := seriesBuilder{runs: runs, options: o}
		for _, l := range runs {
			for _, c := range l.Cases {
				if g.has(l, c) {
					k.add(&b, l, c)
				}
			}
		}
		all := b.finish()
		if len(all) == 0 {
			continue
		}
		f := Figure{Name: slug(k.name, g.slug()), Title: g.title(k.title), Width: seriesWidth, Height: k.height * vg.Inch,
			draw: func(c draw.Canvas) { k.draw(c, all) }}
		f.Alt = f.Title + ". "
		for _, s := range all {
			f.Alt += s.label + ": " + k.words(s) + ". "
		}
		out = append(out, f)
	}
	return out
}

func sourceOf(runs ...*reports.Loaded) string {
	var out []string
	last := ""
	for _, l := range runs {
		m := l.Run.Machine
		machine := cmp.Or(m.Name, m.Backend)
		if m.GPUs > 1 {
			machine = fmt.Sprintf("%d %s", m.GPUs, machine)
		}
		if !l.Run.Started.IsZero() {
			machine += ", " + l.Run.Started.UTC().Format("2006-01-02")
		}
		if len(out) > 0 && machine == last {
			out[len(out)-1] += ", " + l.Name()
			continue
		}
		out, last = append(out, machine+", run "+l.Name()), machine
	}
	return strings.Join(out, "; ")
}

// Options holds the settings of pictures.
type Options struct {
	Speeds  reports.Speeds
	X, Y    string // for heatmap: parameters on the axes
	Beside  bool   // for pareto: also draw the time that a call adds to a matrix product beside it
	Loads   []Load
	Fail    float64 // for compare: allowed slow-down as a fraction, 0 for no limit
	Compare reports.CompareOptions
}

// Kinds lists every kind, in the order of the help.
var Kinds = []Kind{
	{"gain", "the default's time divided by the winner's, with its interval, a line for each routing", gain.figures},
	{"latency", "time against tokens, a line for each routing or peer, with the wire or memory limit", latency.figures},
	{"heatmap", "time against two parameters; a frame marks the winner, a cross marks a failure", perCase("heatmap", "Slower than the fastest by (%)", heatmap)},
	{"pareto", "time against SMs: front, knee and winner", perCase("pareto", "Time against SMs", pareto)},
	{"regret", "what the winner under one routing loses under another routing", regret},
	{"bandwidth", "GB/s of the busiest rank, with the wire or memory limit as the ceiling", bandwidth.figures},
	{"wire", "per cent of the wire limit reached", wire.figures},
	{"memory", "for op activation, per cent of the memory limit reached", memory.figures},
	{"imbalance", "load of experts and ranks, traffic between ranks", imbalance},
	{"samples", "every round of the winner, the default, and the default measured again, which shows the noise", perCase("samples", "Every round", samples)},
	{"libraries", "time of several libraries, tuned and by default, a panel for each kind of work", libraries},
	{"compare", "ratio of two runs in each case, with intervals", compare},
}

// FindKind returns the kind with this name.
func FindKind(name string) (Kind, error) {
	return ep.Find("kind", name, Kinds, func(k Kind) string { return k.Name })
}

// slug makes a file name of its arguments: in lower case, with hyphens in place of all other characters.
func slug(parts ...string) string {
	words := strings.FieldsFunc(strings.ToLower(strings.Join(parts, "-")), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.')
	})
	return strings.Join(words, "-")
}
