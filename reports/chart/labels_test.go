package chart

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func TestSpreadLabels(t *testing.T) {
	ends := []vg.Length{100, 98, 30, 99, 0, 101}
	labels := make([]endLabel, len(ends))
	for i, y := range ends {
		labels[i] = endLabel{lines: make([]string, 1+i%2), end: vg.Point{Y: y}}
	}
	spreadLabels(labels, 0, 110)
	for i, a := range labels {
		if a.center < a.height()/2-0.01 || a.center > 110-a.height()/2+0.01 {
			t.Errorf("label %d lies at %.1f, outside of the plot", i, a.center)
		}
		for j, b := range labels[:i] {
			if gap := (a.center - b.center) * sign(a.end.Y-b.end.Y); gap < (a.height()+b.height())/2-0.01 {
				t.Errorf("labels %d and %d cover each other or changed their order: their lines end at %.0f and %.0f, the labels lie at %.1f and %.1f", i, j, a.end.Y, b.end.Y, a.center, b.center)
			}
		}
	}
	if got := labels[2].center; got != 30 {
		t.Errorf("the label of a line that ends at 30, far from all others, lies at %.1f", got)
	}
}

func sign(x vg.Length) vg.Length {
	if x < 0 {
		return -1
	}
	return 1
}

func TestManyLinesHaveALegend(t *testing.T) {
	for _, c := range []struct {
		lines   int
		beside  bool
		because string
	}{{3, true, "few labels stand beside the plot"}, {30, false, "thirty labels do not fit"}} {
		var all []series
		for i := range c.lines {
			st := styleOf(i)
			mark := st.mark()
			all = append(all, series{label: "line", points: []point{{tokens: 1, mid: 1, lo: 1, hi: 1}, {tokens: 8, mid: 2, lo: 2, hi: 2}}, line: st.line(), mark: &mark})
		}
		if got := labelsBeside(t, all); got != c.beside {
			t.Errorf("labels beside the plot: %v, but %s", got, c.because)
		}
	}
}

func labelsBeside(t *testing.T, all []series) bool {
	t.Helper()
	f := Figure{Width: 460, Height: 300, draw: func(c draw.Canvas) { drawLatency(c, all) }}
	var b bytes.Buffer
	if err := f.Write(&b, "svg", 1); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`<text x="([0-9.]+)"[^>]*>line</text>`).FindAllStringSubmatch(b.String(), -1)
	if len(found) != len(all) {
		t.Fatalf("%d labels of %d lines", len(found), len(all))
	}
	for _, m := range found {
		if x, err := strconv.ParseFloat(m[1], 64); err != nil || x < 2*460./3 {
			return false
		}
	}
	return true
}
