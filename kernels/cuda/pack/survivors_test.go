package pack

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// TestSurvivors: only packs for survivors define EP_SURVIVORS.
func TestSurvivors(t *testing.T) {
	for _, c := range []struct {
		survivors bool
		layout    ep.Layout
	}{{false, ep.LayoutMasked}, {true, ep.LayoutMasked}, {true, ep.LayoutRank}, {true, ep.LayoutRankPacked}} {
		r := Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, ABI: "test", Survivors: c.survivors}
		r.Problem.Layout = c.layout
		_, err := Build(r, func(arch string, units []sources.Unit) (Compiled, error) {
			for _, u := range units {
				if slices.Contains(u.Defines, "EP_SURVIVORS=1") != c.survivors {
					t.Errorf("survivors %v, layout %s: %s", c.survivors, c.layout, u.Key())
				}
			}
			return compile(arch, units)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestSurvivorsRefused(t *testing.T) {
	for _, l := range []ep.Layout{ep.LayoutExpert, ep.LayoutExpert128} {
		r := Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, ABI: "test", Survivors: true}
		r.Problem.Layout = l
		if _, err := Build(r, compile); err == nil || !strings.Contains(err.Error(), "survivors: the kernels of layout "+l.String()) || !strings.Contains(err.Error(), "use --layout masked, rank or rank:packed") {
			t.Errorf("layout %s: %v", l, err)
		}
	}
}
