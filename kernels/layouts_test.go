package kernels

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func legal(ep.Machine, ep.Problem, ep.Config) error { return nil }

// TestServedLayouts: a kernel without declared layouts serves layout expert.
func TestServedLayouts(t *testing.T) {
	all := []Kernel{
		{Name: "old", Op: ep.Dispatch, Check: legal},
		{Name: "both", Op: ep.Dispatch, Check: legal, Layouts: []ep.Layout{ep.LayoutExpert, ep.LayoutRank}},
		{Name: "rank", Op: ep.Combine, Check: legal, Layouts: []ep.Layout{ep.LayoutRank}},
	}
	for _, c := range []struct {
		op     ep.Op
		layout ep.Layout
		want   string // kernel, or error
	}{
		{ep.Dispatch, ep.LayoutExpert, "old"},
		{ep.Dispatch, ep.LayoutRank, "both"},
		{ep.Combine, ep.LayoutRank, "rank"},
		{ep.Pair, ep.LayoutRank, "both+rank"},
		{ep.Combine, ep.LayoutExpert, "--layout: no combine kernel of this backend serves expert; use one of rank"},
		{ep.Pair, ep.LayoutMasked, "--layout: no pair kernel of this backend serves masked; use one of rank"},
	} {
		p := ep.Problem{Op: c.op, Layout: c.layout}
		d, err := Default(all, ep.Machine{}, p, 0)
		if got := d.Kernel; got != c.want && (err == nil || err.Error() != c.want) {
			t.Errorf("%s %s: %q, %v, want %s", c.op, c.layout, got, err, c.want)
		}
	}
	want := "layout: old does not serve rank; it serves expert"
	if err := all[0].CheckLayout(ep.LayoutRank); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
