// Package chart draws run directories with gonum/plot. Every kind of picture
// is one file with one line in Kinds; all share the theme, which keeps series
// apart by marker and dash as well as by colour, so that grey prints work.
package chart

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgpdf" // pdf
	_ "gonum.org/v1/plot/vg/vgsvg" // svg

	"github.com/epbench/epbench/reports"
)

// Figure is one picture, not yet drawn in any format.
type Figure struct {
	Name   string // file name without its ending: latency-dispatch-bf16
	Title  string // one line, drawn above the picture
	Alt    string // what the picture shows, for those who cannot see it
	Width  vg.Length
	Height vg.Length
	draw   func(draw.Canvas)
}

// Formats lists the file formats of Figure.Write.
func Formats() []string { return []string{"svg", "png", "pdf"} }

// Write draws the figure as svg, png or pdf.
func (f Figure) Write(w io.Writer, format string) error {
	var b bytes.Buffer
	c, err := draw.NewFormattedCanvas(f.Width, f.Height, format)
	if err != nil {
		return fmt.Errorf("format: unknown %q, use one of %s", format, strings.Join(Formats(), ", "))
	}
	dc := draw.New(c)
	dc.SetColor(paper)
	dc.Fill(dc.Rectangle.Path())
	f.draw(titled(dc, f.Title))
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	if format == "svg" {
		b = *bytes.NewBuffer(portable(b.Bytes()))
	}
	_, err = w.Write(b.Bytes())
	return err
}

// portable names fonts that every browser has after the one that the text was
// measured with; their digits and letters have the same widths.
func portable(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
}

// Kind is one kind of picture.
type Kind struct {
	Name string
	Doc  string
	// Draw makes the kind's figures of the runs, none when they have nothing
	// to show.
	Draw func(runs []*reports.Loaded, o Options) []Figure
}

// Options are what the runs do not say.
type Options struct {
	Wire  float64 // GB/s that leave a rank at most; 0: by the machine's link
	X, Y  string  // parameters on the axes of a heatmap; "": SMs and threads
	Loads []Load  // of the routings, for imbalance
	Fail  float64 // the gate's threshold in a comparison, as a fraction; 0: none
	// Compare says what a comparison compares.
	Compare reports.CompareOptions
}

// Kinds lists every kind in the order help prints them.
var Kinds = []Kind{
	{"latency", "time against tokens, one line per routing or peer, with the wire floor", latency},
	{"heatmap", "time over threads and SMs, winner marked, failures apart", heatmap},
	{"pareto", "time against SMs, front and knee", pareto},
	{"regret", "what one routing's choice costs under another", regret},
	{"floor", "per cent of the wire floor reached", floor},
	{"imbalance", "load of experts and ranks, traffic between ranks", imbalance},
	{"samples", "every round, and the default against itself", samples},
	{"compare", "ratio of two runs per case, with intervals", compare},
}

// FindKind looks a kind up by name.
func FindKind(name string) (Kind, error) {
	var names []string
	for _, k := range Kinds {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("kind: unknown %q, use one of %s", name, strings.Join(names, ", "))
}

// slug makes a file name of words.
func slug(parts ...string) string {
	words := strings.FieldsFunc(strings.ToLower(strings.Join(parts, "-")), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.')
	})
	return strings.Join(words, "-")
}
