// Package pictures tests docs/workloads.md: it makes the page's table and pictures again and compares them.
package pictures

import (
	"bytes"
	"fmt"
	"image/color"
	"runtime"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/epbench/epbench/tune/testfile"
	"github.com/epbench/epbench/workloads"
)

var specs = []string{
	"uniform", "balanced", "grouped:8:4", "zipf:1.0", "powerlaw:1.01", "lognormal:gini=0.25", "dirichlet:effective=64.0",
	"khot:32:0.9", "hotrank:2.0", "one:0.9", "local", "remote", "all2one:0", "roundrobin", "masked:0.1", "ragged:0",
	"zipf:1.0+drift:16.0:16", "zipf:1.0+eplb:32",
}

const (
	document   = "../workloads.md"
	begin, end = "<!-- table: make pages -->\n", "<!-- end of table -->\n"
)

func TestDocument(t *testing.T) {
	text := testfile.Read(t, document)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the marks of its table", document)
	}
	var table strings.Builder
	table.WriteString(header)
	for _, spec := range specs {
		w := drawn(t, spec)
		table.WriteString(row(w))
		checkPicture(t, w)
	}
	want := before + begin + table.String() + end + after
	testfile.Golden(t, document, []byte(want))
}

// TestNothingIsLeftOut: the page names every distribution and modifier of --routing.
func TestNothingIsLeftOut(t *testing.T) {
	text := testfile.Read(t, document)
	for _, k := range append(workloads.Kinds(), workloads.Modifiers()...) {
		if !strings.Contains(string(text), "`"+k.Name) && !strings.Contains(string(text), "+"+k.Name) {
			t.Errorf("%s does not mention %s", document, k.Name)
		}
	}
}

// drawn draws a routing for deepseek-v3 on 8 ranks with 4096 tokens each. Modifier eplb adds 32 replicas of experts.
func drawn(t *testing.T, spec string) *workloads.Workload {
	t.Helper()
	preset, err := workloads.FindPreset("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	p := preset.Problem(8)
	p.Tokens, p.MaxTokens = 4096, 4096
	if strings.Contains(spec, "eplb") {
		p.Experts += 32
	}
	w, err := workloads.Draw(spec, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const header = "| routing | definition | load of experts 0 to 255, by rank | Gini | expert | rank | pair | ranks | local | effective | dispatch |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|\n"

func row(w *workloads.Workload) string {
	s := w.Stats()
	return fmt.Sprintf("| `%s` | %s | ![%s](workloads/%s.svg) | %.3f | %.2f | %.2f | %.2f | %.2f | %.1f %% | %.1f | %.0f MB |\n",
		w.Spec, definition(w.Spec), name(w.Spec), name(w.Spec), s.Gini, s.MaxMeanExpert, s.MaxMeanRank, s.MaxMeanPair,
		s.DistinctRanks, 100*s.LocalShare, s.EffectiveExperts, float64(w.BytesDispatch(workloads.Direct))/1e6)
}

// definition returns the text that defines the modifier of spec. If spec has no modifier, it returns the definition of
// the distribution.
func definition(spec string) string {
	kinds := append(workloads.Kinds(), workloads.Modifiers()...)
	items := strings.Split(spec, "+")
	word, _, _ := strings.Cut(items[len(items)-1], ":")
	for _, k := range kinds {
		if k.Name == word {
			return k.Doc
		}
	}
	return ""
}

func name(spec string) string {
	var words []string
	for _, item := range strings.Split(spec, "+") {
		word, _, _ := strings.Cut(item, ":")
		words = append(words, word)
	}
	return strings.Join(words, "-")
}

// checkPicture compares a picture with its file, or updates the file. It compares only on amd64: on other processors
// the last digit differs.
func checkPicture(t *testing.T, w *workloads.Workload) {
	t.Helper()
	file := name(w.Spec) + ".svg"
	svg, err := picture(w)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOARCH == "amd64" {
		testfile.Golden(t, file, svg)
	}
}

// picture draws each expert's load divided by the mean load, shaded by rank. Loads above ten times the mean are cut
// off.
func picture(w *workloads.Workload) ([]byte, error) {
	p := plot.New()
	counts := w.TotalCounts()
	mean := 0.0
	for _, n := range counts {
		mean += float64(n) / float64(len(counts))
	}
	local := w.Problem.LocalExperts()
	for rank := range w.Problem.Ranks {
		xy := plotter.XYs{{X: float64(rank * local)}}
		for e := rank * local; e < (rank+1)*local; e++ {
			y := min(float64(counts[e])/mean, 10)
			xy = append(xy, plotter.XY{X: float64(e), Y: y}, plotter.XY{X: float64(e + 1), Y: y})
		}
		area, err := plotter.NewPolygon(append(xy, plotter.XY{X: float64((rank + 1) * local)}))
		if err != nil {
			return nil, err
		}
		area.LineStyle.Width = 0
		area.Color = color.RGBA{R: 0x30, G: 0x68, B: 0xa8, A: 0xff}
		if rank%2 == 1 {
			area.Color = color.RGBA{R: 0x78, G: 0xa8, B: 0xd8, A: 0xff}
		}
		p.Add(area)
	}
	p.Y.Min, p.Y.Max = 0, 10
	p.X.Min, p.X.Max = 0, float64(len(counts))
	p.X.Tick.Marker = plot.ConstantTicks(nil)
	p.Y.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 1, Label: "1x"}, {Value: 10, Label: "10x"}})
	canvas := vgsvg.New(7*vg.Centimeter, 1.6*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}
