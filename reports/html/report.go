// Package html writes the report of a run as one HTML page, which opens without a network.
package html

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

//go:embed page.html style.css table.js
var assets embed.FS

// Options holds the settings of a page.
type Options struct {
	Speeds   reports.Speeds
	Progress string // sweep progress; "" shows the resume command
}

type page struct {
	Title     string
	Style     template.CSS
	Script    template.JS
	Rehearsal string   // says that runs are from the CPU backend, or ""
	Headline  []string // the most important first
	Facts     []fact
	Sections  []section
	Warnings  []string
}

type fact struct{ Value, Label string }

type section struct {
	ID, Title string
	Text      []string
	Lists     [][]pair
	Tables    []template.HTML
	Figures   []figure
	More      string // omitted pictures, and their command
}

type pair struct{ Name, Value string }

type figure struct {
	SVG     template.HTML
	Caption string
}

// Write writes the page of runs[0]. Pictures that compare runs also show the other runs.
func Write(w io.Writer, runs []*reports.Loaded, o Options) error {
	p, err := build(runs, o)
	if err != nil {
		return err
	}
	t, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func build(runs []*reports.Loaded, o Options) (*page, error) {
	style, err := assets.ReadFile("style.css")
	if err != nil {
		return nil, err
	}
	script, err := assets.ReadFile("table.js")
	if err != nil {
		return nil, err
	}
	main := runs[0]
	p := &page{
		Title: "epbench: " + main.Name(), Style: template.CSS(style), Script: template.JS(script),
		Rehearsal: main.Run.Rehearsal(), Headline: reports.Summarise(main.Run).Lines(), Facts: facts(main),
	}
	if hint := cmp.Or(o.Progress, main.Resume()); hint != "" {
		p.Headline = append(p.Headline, hint)
	}
	for _, l := range runs {
		p.Warnings = append(p.Warnings, reports.GatherWarnings(slices.Concat(l.Warnings, l.Run.Warnings))...)
	}
	d := &drawer{runs: runs, main: main, options: chart.Options{Speeds: o.Speeds}}
	d.options.Loads, d.missing = chart.Loads(runs)
	for _, x := range sections {
		d.section = section{ID: x.id, Title: x.title}
		x.fill(d)
		if s := d.section; len(s.Text)+len(s.Lists)+len(s.Tables)+len(s.Figures) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	return p, d.err
}

func facts(l *reports.Loaded) []fact {
	h := reports.Summarise(l.Run)
	out := []fact{
		{fmt.Sprintf("%d of %d", h.All.Verdicts[record.Faster], h.All.Searches), "cases faster than the default"},
	}
	if h.Best != nil {
		out = append(out, fact{fmt.Sprintf("%.2fx", h.All.Gain.Mid), "gain over the default, geometric mean"})
	}
	if h.Best != nil && h.All.Verdicts[record.Faster] > 0 { // otherwise the best gain is noise
		out = append(out, fact{fmt.Sprintf("%.2fx", h.Best.Decision.Gain.Mid), "best gain: " + reports.Title(h.Best.Problem, h.Best.Routing)})
	}
	if h.AA > 0 {
		out = append(out, fact{fmt.Sprintf("%.1f%%", 100*h.AA), "largest A/A spread (the default against itself): smaller differences are noise"})
	}
	tried, failed := 0, 0
	for _, c := range l.Cases {
		tried += len(c.Entries)
		for _, e := range c.Entries {
			if e.Status != ep.OK {
				failed++
			}
		}
	}
	return append(out, fact{fmt.Sprintf("%d", tried), fmt.Sprintf("configs tried in all cases together; %d failed", failed)})
}

type drawer struct {
	section
	runs    []*reports.Loaded
	main    *reports.Loaded
	options chart.Options
	missing []string // errors of chart.Loads, one for each routing that failed
	err     error
}

const perKind = 6

// draw adds at most perKind figures of a kind.
func (d *drawer) draw(kind string, runs ...*reports.Loaded) { d.drawFirst(kind, "", runs...) }

func (d *drawer) drawFirst(kind, op string, runs ...*reports.Loaded) {
	k, err := chart.FindKind(kind)
	if err != nil {
		d.err = err
		return
	}
	figures := k.Draw(runs, d.options)
	slices.SortStableFunc(figures, func(a, b chart.Figure) int {
		return cmp.Compare(strings.Count(b.Name, "-"+op+"-"), strings.Count(a.Name, "-"+op+"-"))
	})
	shown := spread(figures, perKind)
	for _, f := range shown {
		var b bytes.Buffer
		if err := f.Write(&b, "svg", chart.DefaultScale); err != nil {
			d.err = err
			return
		}
		d.Figures = append(d.Figures, figure{inline(b.String(), f), f.Title})
	}
	if len(shown) < len(figures) {
		var paths []string
		for _, l := range runs {
			paths = append(paths, l.Path)
		}
		d.More = fmt.Sprintf("%d more pictures: epbench plot %s --kind %s", len(figures)-len(shown), strings.Join(paths, " "), kind)
	}
}

// spread returns n evenly spread figures. The last figure is always one of them.
func spread(figures []chart.Figure, n int) []chart.Figure {
	if len(figures) <= n {
		return figures
	}
	var out []chart.Figure
	for i := range n {
		out = append(out, figures[(i+1)*len(figures)/n-1])
	}
	return out
}

func inline(svg string, f chart.Figure) template.HTML {
	_, svg, _ = strings.Cut(svg, "<svg ")
	_, svg, _ = strings.Cut(svg, ">")
	for role, spelled := range chart.Ink {
		svg = strings.ReplaceAll(svg, spelled, "var(--"+role+")")
	}
	svg = strings.ReplaceAll(svg, "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;font-variant:normal;font-weight:normal;font-style:normal;", "")
	_, svg, _ = strings.Cut(svg, "</desc>")
	head := fmt.Sprintf(`<svg role="img" aria-label="%s" viewBox="0 0 %.5g %.5g">`, template.HTMLEscapeString(f.Alt), f.Width.Points(), f.Height.Points())
	return template.HTML(head + svg)
}

// WriteRun writes report.html and the folder plots/ into a run's directory.
func WriteRun(l *reports.Loaded) error {
	dir, runs := l.Path, []*reports.Loaded{l}
	err := record.WriteFile(filepath.Join(dir, record.ReportFile), record.Content(func(w io.Writer) error { return Write(w, runs, Options{}) }))
	plots := filepath.Join(dir, record.PlotsDir)
	if err = errors.Join(err, os.MkdirAll(plots, 0o777)); err != nil {
		return err
	}
	var o chart.Options
	o.Loads, _ = chart.Loads(runs)
	for _, k := range chart.Kinds {
		for _, f := range spread(k.Draw(runs, o), perKind) {
			err := record.WriteFile(filepath.Join(plots, f.Name+".svg"), record.Content(func(w io.Writer) error { return f.Write(w, "svg", chart.DefaultScale) }))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
