package ep

import "testing"

func TestWorkKey(t *testing.T) {
	ours := Work{Library: "epbench", Layout: "expert", Inside: []string{"cast", "counts", "expansion"}}
	sum := Work{Layout: "expert", Sum: "gated", Inside: []string{"reduction"}}
	for _, c := range []struct {
		work Work
		p    Problem
		want string
	}{
		{ours, Problem{Dispatch: BF16}, "expert +counts +expansion"},
		{ours, Problem{Dispatch: FP8}, "expert +cast +counts +expansion"},
		{ours, Problem{Dispatch: BF16, Layout: LayoutExpert128}, "expert +counts +expansion"},
		{ours, Problem{Dispatch: BF16, Layout: LayoutMasked}, "masked +counts +expansion"},
		{ours, Problem{Dispatch: BF16, Layout: LayoutRankPacked}, "rank +counts"},
		{Work{Library: "deepep", Layout: "rank", Inside: []string{"counts"}}, Problem{Dispatch: BF16, Layout: LayoutRank}, "rank +counts"},
		{Work{Layout: "rank", Inside: []string{"counts"}}, Problem{Dispatch: BF16}, "rank +counts"}, // an old run, without layout
		{sum, Problem{Dispatch: BF16, Layout: LayoutRank}, "rank plain +reduction"},
		{sum, Problem{Dispatch: BF16, Layout: LayoutMasked}, "masked gated +reduction"},
		{Work{Inside: []string{"counts"}}, Problem{Dispatch: BF16, Layout: LayoutRank}, ""},
	} {
		if got := c.work.Key(c.p); got != c.want {
			t.Errorf("%+v in layout %s: %q, want %q", c.work, c.p.Layout, got, c.want)
		}
	}
	if len(ours.Inside) != 3 {
		t.Error("the declared work changed")
	}
}
