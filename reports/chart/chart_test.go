package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func recorded(t *testing.T) map[string]*reports.Loaded {
	t.Helper()
	out := map[string]*reports.Loaded{}
	for name, dir := range map[string]string{
		"failures": "../testdata/runs/failures", "ties": "../testdata/runs/ties", "large": "../../testdata/runs/h200x2-deepseek-v3",
		"cpu-sweep": "../../testdata/runs/cpu-sweep", "cpu-single": "../../testdata/runs/cpu-single",
	} {
		l, err := reports.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = l
	}
	return out
}

// axisWords gives, for each kind of picture, the words on its axes and the runs for which this picture can be drawn.
var axisWords = map[string]struct{ words, runs []string }{
	"gain":      {[]string{"tokens per rank", "gain over the default (x)", "1: as fast as the default"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
	"bandwidth": {[]string{"tokens per rank", "GB/s of the busiest rank", "each token once to each rank that needs it"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
	"latency":   {[]string{"tokens per rank", "time of one call (us)"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
	"heatmap":   {[]string{"(%)", "blank: no config was measured"}, []string{"failures", "ties", "large", "cpu-sweep"}},
	"pareto":    {[]string{"SMs taken", "time of one call (us)"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
	"regret":    {[]string{"winner of", "launched under", "(%)"}, []string{"failures", "ties", "large", "cpu-sweep"}},
	"wire":      {[]string{"tokens per rank", "of the wire limit (%)"}, []string{"failures", "large"}},
	"imbalance": {[]string{"tokens received", "from rank", "to rank"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
	"samples":   {[]string{"round", "time of one call (us)"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
	"compare":   {[]string{"ratio (1: as fast; more: slower)"}, []string{"failures", "ties", "large", "cpu-sweep", "cpu-single"}},
}

func TestEveryKindOfEveryRun(t *testing.T) {
	runs := recorded(t)
	for _, k := range Kinds {
		want := axisWords[k.Name]
		for _, name := range want.runs {
			t.Run(k.Name+"/"+name, func(t *testing.T) {
				l := runs[name]
				in := []*reports.Loaded{l}
				if k.Name == "compare" {
					in = append(in, l)
				}
				o := Options{Fail: 0.03}
				o.Loads, _ = Loads(in)
				figures := k.Draw(in, o)
				if len(figures) == 0 {
					t.Fatal("no figure")
				}
				checkFigure(t, figures[len(figures)-1], want.words)
			})
		}
	}
}

// checkFigure draws a figure in each format. The SVG must contain the words `want`.
func checkFigure(t *testing.T, f Figure, want []string) {
	t.Helper()
	svg := drawn(t, f, "svg")
	if again := drawn(t, f, "svg"); !bytes.Equal(svg, again) {
		t.Error("two drawings differ")
	}
	text := svgText(t, svg)
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s lacks %q; it has %.300q", f.Name, w, text)
		}
	}
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Errorf("%s has NaN or Inf as a coordinate", f.Name)
	}
	if f.Alt == "" || strings.Contains(f.Alt, "NaN") {
		t.Errorf("%s: alt text %q", f.Name, f.Alt)
	}
	img, err := png.Decode(bytes.NewReader(drawn(t, f, "png")))
	if err != nil {
		t.Fatal(err)
	}
	if n := colours(img, 8); n < 8 {
		t.Errorf("%s is blank: it has %d colours", f.Name, n)
	}
	if pdf := drawn(t, f, "pdf"); !bytes.HasPrefix(pdf, []byte("%PDF")) {
		t.Errorf("%s: no PDF", f.Name)
	}
}

func drawn(t *testing.T, f Figure, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, format, DefaultScale); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func svgText(t *testing.T, svg []byte) string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var b strings.Builder
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.CharData); ok {
			b.Write(s)
			b.WriteByte('\n')
		}
	}
}

// colours counts the colours of a picture. It stops counting at `enough`.
func colours(img image.Image, enough int) int {
	seen := map[color.Color]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y && len(seen) < enough; y += 2 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 2 {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

func TestUnknownFormatAndKind(t *testing.T) {
	if err := (Figure{Width: 10, Height: 10}).Write(io.Discard, "gif", 1); err == nil || !strings.Contains(err.Error(), "svg, png, pdf") {
		t.Errorf("got %v", err)
	}
	if _, err := FindKind("latncy"); err == nil || !strings.Contains(err.Error(), "latency") {
		t.Errorf("got %v", err)
	}
}

// TestSeriesDifferWithoutColour: the first 12 series differ by dashes or marks.
func TestSeriesDifferWithoutColour(t *testing.T) {
	type look struct {
		dash int
		mark string
	}
	seen := map[look]int{}
	for i := range 12 {
		s := styleOf(i)
		l := look{len(s.dash)*100 + int(append(s.dash, 0)[0]), fmt.Sprintf("%T", s.glyph)}
		if j, ok := seen[l]; ok {
			t.Errorf("series %d and %d look the same without colour: %v", i, j, l)
		}
		seen[l] = i
	}
	for i := 1; i < len(palette); i++ {
		if a, b := luminance(palette[i-1]), luminance(palette[i]); a-b < 12 && b-a < 12 {
			t.Errorf("neighbours %d and %d of the palette are the same grey: %.0f, %.0f", i-1, i, a, b)
		}
	}
	for i := 1; i < len(ramp); i++ {
		if luminance(ramp[i]) >= luminance(ramp[i-1]) {
			t.Errorf("colour %d of the ramp is not darker than the one before", i)
		}
	}
}

func luminance(c color.RGBA) float64 {
	return 0.299*float64(c.R) + 0.587*float64(c.G) + 0.114*float64(c.B)
}

// TestPeersBesideOurs: times that were imported from another library appear in the picture of a run with the same
// shape.
func TestPeersBesideOurs(t *testing.T) {
	l := recorded(t)["failures"]
	p := l.Cases[0].Problem
	p.Mode = ep.Eager
	peer := &record.Run{}
	results := []record.Result{{Problem: p, Routing: "uniform", Config: ep.Config{Kernel: "deepep-ll"}, Role: record.Peer, Stage: "import",
		Status: "ok", Clock: "span", Seconds: [][]float64{{12e-6}}}}
	m := &reports.Loaded{Path: "peers", Run: peer, Results: results, Cases: reports.Cases(peer, results)}
	figures := latency.figures([]*reports.Loaded{l, m}, Options{})
	if len(figures) != 2 {
		t.Fatalf("%d figures, want dispatch and combine", len(figures))
	}
	if text := svgText(t, drawn(t, figures[0], "svg")); !strings.Contains(text, "deepep-ll bf16 (eager, span)") {
		t.Errorf("the peer is not named: %q", text)
	}
}
