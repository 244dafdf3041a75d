// Package chart draws run directories with gonum/plot. A kind of picture is one
// file and one line in Kinds. Series differ in marker and dash as well as in
// colour, so that grey prints work.
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
	_ "gonum.org/v1/plot/vg/vgpdf" // pdf
	_ "gonum.org/v1/plot/vg/vgsvg" // svg

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// Figure is one picture, before a file format is chosen.
type Figure struct {
	Name   string // file name without its ending: latency-dispatch-bf16
	Title  string // one line, drawn above the picture
	Alt    string // the picture in words, with the important values; SVG files hold it as their description
	Lead   string // drawn below the title: what a reader must know of all numbers, or ""
	Source string // origin of the numbers, drawn below: machine, date, run
	Width  vg.Length
	Height vg.Length
	draw   func(draw.Canvas)
}

// Formats lists the file formats of Figure.Write.
func Formats() []string { return []string{"svg", "png", "pdf"} }

// DefaultScale makes PNG pictures about 1,200 pixels wide.
const DefaultScale = 2

// Write draws the figure as svg, png or pdf. A PNG has scale times 96 pixels an
// inch; the other formats have no pixels.
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

// described adds the picture in words to an SVG. After the font that measured its text it
// names fonts of the same widths that every browser has.
func (f Figure) described(svg string) string {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	at := strings.Index(svg, "<svg ")
	at += 1 + strings.IndexByte(svg[at:], '>')
	return svg[:at] + "\n<desc>" + html.EscapeString(f.alt()) + "</desc>" + svg[at:]
}

// alt returns the picture in words, with the lead.
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

// Draw makes the kind's figures of the runs, none if there is nothing to show.
func (k Kind) Draw(runs []*reports.Loaded, o Options) []Figure {
	figures := k.draw(runs, o)
	seen := map[string]int{} // cases may differ in what the file name leaves out
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

// perCase makes a kind with one figure for every case for which draw returns one.
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

// groupKind is a kind with one figure of lines over token counts for every group of problems.
type groupKind struct {
	name, title string
	height      vg.Length // inches
	add         func(*seriesBuilder, *reports.Loaded, *reports.Case)
	draw        func(draw.Canvas, []series)
	words       func(series) string // the values of a line
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
		f := Figure{Name: slug(k.name, g.slug()), Title: g.title(k.title), Width: 6.4 * vg.Inch, Height: k.height * vg.Inch,
			draw: func(c draw.Canvas) { k.draw(c, all) }}
		f.Alt = f.Title + ". "
		for _, s := range all {
			f.Alt += s.label + ": " + k.words(s) + ". "
		}
		out = append(out, f)
	}
	return out
}

// sourceOf names the machine, date and run of each run. It names machine and date once for
// successive runs that share them.
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
	Speeds reports.Speeds // speeds of links and memory, from which limits are computed
	X, Y   string         // parameters on the axes of a heatmap; "": SMs and threads
	Beside bool           // pareto: one sheet with the time alone, and the cost while a matrix product runs
	Loads  []Load         // for imbalance
	Fail   float64        // the gate's threshold in a comparison, as a fraction; 0: none
	// Compare says what a comparison compares.
	Compare reports.CompareOptions
}

// Kinds lists every kind in the order help prints them.
var Kinds = []Kind{
	{"gain", "the default's time over the winner's, with its interval, a line for each routing", gain.figures},
	{"latency", "time against tokens, a line for each routing or peer, with the wire or memory limit", latency.figures},
	{"heatmap", "time over two parameters, the winner framed, failures crossed", perCase("heatmap", "Time over the fastest (%)", heatmap)},
	{"pareto", "time against SMs: front, knee and winner", perCase("pareto", "Time against SMs", pareto)},
	{"regret", "what one routing's winner loses under another", regret},
	{"bandwidth", "GB/s of the busiest rank, with the wire or memory limit as the ceiling", bandwidth.figures},
	{"wire", "per cent of the wire limit reached", wire.figures},
	{"memory", "per cent of the memory limit that op activation reached", memory.figures},
	{"imbalance", "load of experts and ranks, traffic between ranks", imbalance},
	{"samples", "every round, and the default against itself", perCase("samples", "Every round", samples)},
	{"libraries", "time of several libraries, tuned and by default, a panel for each kind of work", libraries},
	{"compare", "ratio of two runs in each case, with intervals", compare},
}

// FindKind looks a kind up by name.
func FindKind(name string) (Kind, error) {
	return ep.Find("kind", name, Kinds, func(k Kind) string { return k.Name })
}

// slug makes a file name of words.
func slug(parts ...string) string {
	words := strings.FieldsFunc(strings.ToLower(strings.Join(parts, "-")), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.')
	})
	return strings.Join(words, "-")
}
