package declare

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
)

// TestBoundedDefaultsAreLegal: every kernel's default is legal under any bound on SMs.
func TestBoundedDefaultsAreLegal(t *testing.T) {
	m := onCPU()
	p := ep.Problem{Op: ep.Pair, Mode: ep.Graph, Nodes: 1, Ranks: 4, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 128, MaxTokens: 128, Dispatch: ep.FP8, Combine: ep.BF16}
	for bound := 2; bound <= m.SMs; bound++ {
		for _, f := range Declarations() {
			p := inLayoutOf(f.Kernel, p)
			c := f.Kernel.DefaultWithin(m, p, bound)
			if err := f.Check(m, p, c); err != nil || c.Int("sms") > bound {
				t.Fatalf("at most %d SMs: %s: %v", bound, c.Key(), err)
			}
		}
	}
}

// TestEPDefaultsAreLegal: the ep kernels' defaults are legal for every valid problem. Launches fit the machine and have
// blocks for every role.
func TestEPDefaultsAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ep.Problem{Op: ep.Pair, Mode: ep.Graph, Nodes: 1, Combine: ep.BF16,
			Ranks:        rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "ranks"),
			Hidden:       32 * rapid.IntRange(1, 512).Draw(t, "hidden/32"),
			TopK:         rapid.IntRange(1, 16).Draw(t, "topk"),
			MaxTokens:    rapid.IntRange(1, 1<<16).Draw(t, "tokens"),
			Dispatch:     rapid.SampledFrom(ep.DTypes()).Draw(t, "dtype"),
			SharedExpert: rapid.Bool().Draw(t, "shared"),
			SkipA2A:      rapid.Bool().Draw(t, "skip"),
		}
		p.Experts = p.Ranks * rapid.IntRange(16, 128).Draw(t, "local")
		if p.Validate() != nil {
			t.Skip("not a problem")
		}
		m := onCPU()
		m.SMs = rapid.IntRange(2, 160).Draw(t, "sms")
		for _, f := range []Declaration{dispatchEP(), combineEP()} {
			c := f.Kernel.Default(m, p)
			if err := f.Check(m, p, c); err != nil {
				t.Fatalf("%s: %v", c.Key(), err)
			}
			for _, q := range f.Kernel.Params {
				if _, given := c.Values[q.Name]; !given {
					t.Fatalf("%s: default leaves out %s", c.Key(), q.Name)
				}
			}
			for _, l := range f.Launches(p, c) {
				if l.Grid > m.SMs || l.Params.WaitSMs >= l.Grid || l.Params.CountSMs >= l.Grid {
					t.Fatalf("%s: launch %+v", c.Key(), l)
				}
			}
			for _, r := range f.State.RegionsFor(p) {
				if r.Bytes <= 0 {
					t.Fatalf("region %s has %d bytes", r.Name, r.Bytes)
				}
			}
		}
	})
}

// TestEPRefusals: each error begins with the field's or parameter's name and value.
func TestEPRefusals(t *testing.T) {
	base := epCase{dtype: ep.FP8, ranks: 2, experts: 8, topK: 2, hidden: 256, max: 8}
	for _, c := range []struct {
		problem func(*ep.Problem)
		machine func(*ep.Machine)
		conf    []string
		want    string
	}{
		{conf: []string{"sms", "133"}, want: "sms: 133"},
		{conf: []string{"sms", "1"}, want: "sms: 1"},
		{conf: []string{"threads", "100"}, want: "threads: 100"},
		{conf: []string{"count_sms", "132"}, want: "count_sms: 132"},
		{conf: []string{"chunk_bytes", "100"}, want: "chunk_bytes: 100"},
		{conf: []string{"tile_tokens", "0"}, want: "tile_tokens: 0"},
		{conf: []string{"mode", "both"}, want: "mode:"},
		{conf: []string{"algo", "magic"}, want: "algo:"},
		{conf: []string{"in_flight", "3"}, want: "in_flight:"},
		{conf: []string{"copy", "bulk"}, machine: func(m *ep.Machine) { m.Arch = "sm_80" }, want: "copy: bulk needs sm_90"},
		{conf: []string{"copy", "bulk"}, problem: func(p *ep.Problem) { p.Dispatch, p.Hidden = ep.BF16, 65536 }, want: "copy: bulk stages"},
		{conf: []string{"algo", "dedup"}, problem: func(p *ep.Problem) { p.SkipA2A = true }, want: "algo: dedup"},
		{problem: func(p *ep.Problem) { p.Dispatch, p.Hidden = ep.NVFP4, 48 }, want: "hidden: 48"},
		{problem: func(p *ep.Problem) { p.Ranks, p.Experts = 16, 16 }, want: "ranks: 16"},
		{problem: func(p *ep.Problem) { p.Nodes = 2 }, want: "nodes: 2"},
		{machine: func(m *ep.Machine) { m.GPUs = 1 }, want: "ranks: 2 need 2 GPUs"},
	} {
		m, p := onCPU(), base.problem()
		conf := changed(dispatchEP().Kernel.Default(m, p), c.conf...)
		if c.problem != nil {
			c.problem(&p)
		}
		if c.machine != nil {
			c.machine(&m)
		}
		if err := dispatchEP().Check(m, p, conf); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want an error that starts %q", c.conf, err, c.want)
		}
	}
}

// TestEPPairs: a combine with algo=dedup needs a dispatch with algo=dedup.
func TestEPPairs(t *testing.T) {
	d, c := dispatchEP().Kernel.Default(onCPU(), ep.Problem{Ranks: 2, Experts: 8}), combineEP().Kernel.Default(onCPU(), ep.Problem{Ranks: 2})
	for _, q := range []struct {
		dispatch, combine string
		legal             bool
	}{{"direct", "direct", true}, {"dedup", "direct", true}, {"dedup", "dedup", true}, {"direct", "dedup", false}} {
		err := checkPairEP(changed(d, "algo", q.dispatch), changed(c, "algo", q.combine))
		if (err == nil) != q.legal {
			t.Errorf("%s then %s: %v", q.dispatch, q.combine, err)
		}
	}
	follow, err := DispatchBefore(onCPU(), ep.Problem{Ranks: 2, Experts: 8}, changed(c, "algo", "dedup"))
	if err != nil || follow.Str("algo") != "dedup" {
		t.Errorf("the dispatch before a combine with algo=dedup is %s (error %v)", follow.Key(), err)
	}
	if first := slices.IndexFunc(Declarations(), func(f Declaration) bool { return f.Kernel.Op == ep.Dispatch }); Declarations()[first].Kernel.Name != "dispatch" {
		t.Error("the library default is not the first dispatch")
	}
}
