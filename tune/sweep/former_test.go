package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/spacefile"
)

type listedBackend struct {
	scripted
	all []kernels.Kernel
}

func (b *listedBackend) Kernels() []kernels.Kernel { return b.all }

func TestFormerNames(t *testing.T) {
	own := kernels.Kernel{Name: "d", Op: ep.Dispatch, Params: []kernels.Param{
		{Name: "sms", Values: []ep.Value{"8", "16"}, Default: "8"},
		{Name: "rows", Values: []ep.Value{"slot", "home"}, Default: "slot", Before: "slot"}},
		Formerly: map[string]kernels.Former{"d_home": {Values: map[string]ep.Value{"rows": "home"}}},
		Check:    func(ep.Machine, ep.Problem, ep.Config) error { return nil }}
	file := func(text string) *spacefile.File { return spaceFile(t, text) }
	for _, c := range []struct {
		named []string
		space *spacefile.File
		want  string
	}{
		{nil, nil, "8 slot, 8 home, 16 slot, 16 home"},
		{[]string{"d_home"}, nil, "8 home, 16 home"},
		{[]string{"d", "d_home"}, nil, "8 slot, 8 home, 16 slot, 16 home"},
		{nil, file("kernels: {d_home: {sms: {values: [16, 64]}}}"), "16 home, 64 home"},
		{nil, file("kernels: {d: {sms: {values: [8]}, rows: {values: [slot]}}, d_home: {sms: {values: [16]}}}"), "16 home, 16 slot, 8 home, 8 slot"},
		{nil, file("constraints: [{keep: sms > 8, kernels: [d_home]}]"), "8 slot, 16 slot, 16 home"},
		{nil, file("constraints: [{keep: sms > 8, kernels: [d_home, d]}]"), "16 slot, 16 home"},
		{[]string{"d_home"}, file("required: ['d_home:sms=24']"), "8 home, 16 home, required d:rows=home,sms=24"},
	} {
		pl := newPlanner(&listedBackend{all: []kernels.Kernel{own}}, &Options{Kernels: c.named, Space: c.space})
		if err := pl.checkOptions(); err != nil {
			t.Errorf("%v: %v", c.named, err)
			continue
		}
		p := ep.Problem{Op: ep.Dispatch, Nodes: 1, Ranks: 2, Hidden: 512, Experts: 32, TopK: 4, Tokens: 16, MaxTokens: 16, Dispatch: ep.BF16, Combine: ep.BF16}
		grids, err := pl.grids(p)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, sms := range grids[0].Axes[0].Values {
			for _, rows := range grids[0].Axes[1].Values {
				x := ep.Config{Kernel: "d", Values: map[string]ep.Value{"sms": sms, "rows": rows}}
				if !slices.ContainsFunc(grids[0].Rules, func(broken search.Rule) bool { return broken(x) != "" }) {
					got = append(got, fmt.Sprint(sms, " ", rows))
				}
			}
		}
		for _, x := range pl.opts.Space.Candidates("d") {
			got = append(got, "required "+x.Key())
		}
		if joined := strings.Join(got, ", "); joined != c.want {
			t.Errorf("--kernel %v: %s, want %s", c.named, joined, c.want)
		}
	}
}
