package ep

import "testing"

func TestHiddenRefusals(t *testing.T) {
	for _, c := range []struct {
		dtype  DType
		hidden int
		want   string
	}{
		{BF16, 100, "hidden: 100 is not a multiple of 8, which bf16 needs; pad it to 104"},
		{FP8, 100, "hidden: 100 is not a multiple of 128, which fp8 needs; pad it to 128"},
		{FP8, 2880, "hidden: 2880 is not a multiple of 128, which fp8 needs; pad it to 2944 or use bf16"},
		{NVFP4, 24, "hidden: 24 is not a multiple of 16, which nvfp4 needs; pad it to 32 or use bf16"},
		{FP8, 127, "hidden: 127 is not a multiple of 128, which fp8 needs; pad it to 128"},
		{FP8, 129, "hidden: 129 is not a multiple of 128, which fp8 needs; pad it to 256"},
		{MXFP4, 64, ""},
	} {
		got := ""
		if err := c.dtype.checkHidden(c.hidden); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %d: %q, want %q", c.dtype, c.hidden, got, c.want)
		}
	}
}

var sound = Problem{Op: Pair, Mode: Cold, Ranks: 8, Nodes: 2, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 5, MaxTokens: 64,
	Dispatch: FP8, Combine: BF16, SharedExpert: true}

func TestProblemBounds(t *testing.T) {
	for _, c := range []struct {
		want string // "" for a valid problem
		edit func(*Problem)
	}{
		{"", func(*Problem) {}},
		{"", func(p *Problem) { p.Ranks, p.Nodes, p.Experts = MaxRanks, MaxRanks, MaxExperts }},
		{"", func(p *Problem) { p.Hidden, p.TopK, p.MaxTokens, p.Tokens = MaxHidden, MaxTopK, MaxTokens, MaxTokens }},
		{"", func(p *Problem) { p.Ranks, p.Nodes, p.Experts, p.TopK, p.Tokens, p.MaxTokens = 1, 1, 1, 1, 0, 1 }},
		{"ranks: 0 is outside 1 to 2048", func(p *Problem) { p.Ranks = 0 }},
		{"ranks: 2049 is outside 1 to 2048", func(p *Problem) { p.Ranks = MaxRanks + 1 }},
		{"nodes: 0 is outside 1 to 8", func(p *Problem) { p.Nodes = 0 }},
		{"nodes: 9 is outside 1 to 8", func(p *Problem) { p.Nodes = 9 }},
		{"nodes: 8 ranks do not divide by 3 nodes", func(p *Problem) { p.Nodes = 3 }},
		{"hidden: 0 is outside 1 to 65536", func(p *Problem) { p.Hidden = 0 }},
		{"experts: 65537 is outside 1 to 65536", func(p *Problem) { p.Experts = MaxExperts + 1 }},
		{"experts: 12 is not a multiple of 8 ranks; ranks can be 1, 2, 3, 4, 6, 12", func(p *Problem) { p.Experts = 12 }},
		{"topk: 33 is outside 1 to 32", func(p *Problem) { p.TopK = MaxTopK + 1 }},
		{"topk: 9 is outside 1 to 8", func(p *Problem) { p.Experts, p.TopK = 8, 9 }},
		{"max-tokens: 0 is outside 1 to 1048576", func(p *Problem) { p.MaxTokens = 0 }},
		{"tokens: -1 is outside 0 to 64", func(p *Problem) { p.Tokens = -1 }},
		{"tokens: 65 is outside 0 to 64", func(p *Problem) { p.Tokens = 65 }},
		{`op: unknown "", use one of dispatch, combine, pair, activation, layer`, func(p *Problem) { p.Op = "" }},
		{`mode: unknown "x", use one of graph, eager, cold`, func(p *Problem) { p.Mode = "x" }},
		{`dtype: unknown "fp16", use one of bf16, fp8, mxfp4, nvfp4`, func(p *Problem) { p.Dispatch = "fp16" }},
		{`combine: "fp8", but combine sends bf16 only`, func(p *Problem) { p.Combine = FP8 }},
		{"", func(p *Problem) { p.Layout = LayoutExpert128 }},
		{"", func(p *Problem) { p.Layout, p.SharedExpert = LayoutRankPacked, false }},
		{`layout: unknown "rows", use one of expert, expert:128, masked, rank, rank:packed`, func(p *Problem) { p.Layout = "rows" }},
		{"shared-expert: layout rank does not support it; use layout expert", func(p *Problem) { p.Layout = LayoutRank }},
		{"skip-a2a: layout masked does not support it; use layout expert", func(p *Problem) { p.Layout, p.SharedExpert, p.SkipA2A = LayoutMasked, false, true }},
		{"dtype: mxfp4: layout masked does not support it; use layout expert", func(p *Problem) { p.Layout, p.SharedExpert, p.Dispatch = LayoutMasked, false, MXFP4 }},
		{"intermediate: 64; only op layer has it", func(p *Problem) { p.Intermediate = 64 }},
		{"", func(p *Problem) { p.Op, p.Intermediate, p.SharedExpert = Layer, 2048, false }},
		{"intermediate: 0 is outside 1 to 65536", func(p *Problem) { p.Op, p.SharedExpert = Layer, false }},
		{"intermediate: 12 is not a multiple of 8 elements (16 bytes of bf16)", func(p *Problem) { p.Op, p.Intermediate, p.SharedExpert = Layer, 12, false }},
		{"shared-expert, skip-a2a: op layer does not support them", func(p *Problem) { p.Op, p.Intermediate = Layer, 2048 }},
		{"layout: op layer returns no received rows, so it has no layout; leave the field out", func(p *Problem) {
			p.Op, p.Intermediate, p.SharedExpert, p.Layout = Layer, 2048, false, LayoutMasked
		}},
		{"precision: 7 is neither ep.Full nor ep.Reduced", func(p *Problem) { p.Precision = 7 }},
	} {
		p, got := sound, ""
		c.edit(&p)
		if err := p.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", p.Key(), got, c.want)
		}
	}
}

func TestProblemKey(t *testing.T) {
	want := "op=pair mode=cold ranks=8 nodes=2 hidden=7168 experts=256 topk=8 tokens=5 max=64 dispatch=fp8 combine=bf16 shared=1 skip=0"
	p := sound
	if got := p.Key(); got != want {
		t.Errorf("the key is %s", got)
	}
	if p.Precision = Reduced; p.Key() != want+" precision=reduced" {
		t.Errorf("the key is %s", p.Key())
	}
	if p.Layout = LayoutRankPacked; p.Key() != want+" precision=reduced layout=rank:packed" {
		t.Errorf("the key is %s", p.Key())
	}
	if p.LocalExperts() != 32 {
		t.Errorf("%d local experts, want 256 experts / 8 ranks = 32", p.LocalExperts())
	}
}
