package workloads

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
)

// handMade has top-2. The tokens of rank 0 select experts {0 1}, {0 2} and {3 -}. The token of rank 1 selects {0 3}.
func handMade() *Workload {
	p := shape(2, 4, 2, 3)
	p.Hidden = 64
	return &Workload{Problem: p, Ranks: []Routing{
		{Tokens: 3, Experts: []int32{0, 1, 0, 2, 3, -1}, Weights: []float32{.5, .5, .5, .5, 1, 0}},
		{Tokens: 1, Experts: []int32{0, 3}, Weights: []float32{.5, .5}},
	}}
}

func TestStatsByHand(t *testing.T) {
	w := handMade()
	if got := w.TotalCounts(); !reflect.DeepEqual(got, []int64{3, 1, 1, 2}) {
		t.Fatalf("counts %v", got)
	}
	s := w.Stats()
	h := -(3/7.*math.Log2(3/7.) + 2/7.*math.Log2(2/7.) + 2*math.Log2(1/7.)/7)
	for name, want := range map[string]float64{
		"tokens": 4, "selections": 7, "masked": 1,
		"gini":            (2*(1*1+2*1+3*2+4*3)/(4*7.) - 5/4.),
		"cv":              math.Sqrt(4*15/49. - 1),
		"max_mean_expert": 3 / (7 / 4.), "max_mean_rank": 4 / 3.5, "max_mean_pair": 2 / (7 / 8.),
		"distinct_ranks": 6 / 4., "local_share": 4 / 7.,
		"entropy": h, "effective_experts": math.Exp2(h), "top20_share": 3 / 7.,
	} {
		if got := s.Map()[name]; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got, want := len(s.Map()), reflect.TypeFor[Stats]().NumField(); got != want {
		t.Errorf("%d statistics in the map, %d fields", got, want)
	}
	if got := w.Messages(Direct); !reflect.DeepEqual(got, Matrix{{3, 2}, {1, 1}}) {
		t.Errorf("one message for each selection: %v", got)
	}
	if got := w.Messages(Dedup); !reflect.DeepEqual(got, Matrix{{2, 2}, {1, 1}}) {
		t.Errorf("one message for each token and rank: %v", got)
	}
	// A dispatch message has 128 bytes of payload, 16 of index and 16 of ids.
	if d, c := w.BytesDispatch(Direct), w.BytesCombine(Direct); d != 2*160 || c != 2*128 {
		t.Errorf("the busiest rank moves %d bytes in a dispatch and %d in a combine", d, c)
	}
	if got := w.BytesOp(ep.Pair, Dedup); got != 2*160+2*128 {
		t.Errorf("a pair moves %d bytes", got)
	}
	if got := WireLimit(900, 450); math.Abs(got-2e-9) > 1e-20 {
		t.Errorf("wire limit %v", got)
	}
}

func TestMessageBytes(t *testing.T) {
	for _, c := range []struct {
		hidden, topK, bf16, fp8, mxfp4, nvfp4 int
	}{
		{7168, 8, 14368, 7424, 3840, 4064},
		{6144, 4, 12320, 6368, 3296, 3488},
		{4096, 6, 8224, 4256, 2208, 2336},
		{2048, 8, 4128, 2144, 1120, 1184},
	} {
		got := []int{}
		for _, f := range ep.DTypes() {
			got = append(got, MessageBytes(f, c.hidden, c.topK))
		}
		if want := []int{c.bf16, c.fp8, c.mxfp4, c.nvfp4}; !reflect.DeepEqual(got, want) {
			t.Errorf("hidden %d, top-%d: %v bytes, want %v", c.hidden, c.topK, got, want)
		}
	}
}

func TestTrafficAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom(plainSpecs).Draw(t, "spec")
		p := v3(rapid.IntRange(100, 200).Draw(t, "tokens"))
		p.SkipA2A = rapid.Bool().Draw(t, "skip")
		d, _ := Parse(spec)
		w, err := New(d, p, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		direct, dedup := w.Messages(Direct), w.Messages(Dedup)
		perRank := rankSums(w.TotalCounts(), 8)
		for dst := range 8 {
			sum := int64(0)
			for src := range 8 {
				sum += direct[src][dst]
				if dedup[src][dst] > direct[src][dst] || dedup[src][dst] > int64(w.Ranks[src].Tokens) {
					t.Fatalf("%d messages from %d to %d after de-duplication, %d before", dedup[src][dst], src, dst, direct[src][dst])
				}
			}
			if sum != perRank[dst] {
				t.Fatalf("rank %d gets %d messages for %d selections", dst, sum, perRank[dst])
			}
		}
		s := w.Stats()
		for name, v := range s.Map() {
			if math.IsNaN(v) || v < 0 {
				t.Fatalf("%s is %v", name, v)
			}
		}
		if s.DistinctRanks > 8 || s.Gini >= 1 || s.EffectiveExperts > 288.0001 || s.MaxMeanPair < s.MaxMeanExpert/8 {
			t.Fatalf("impossible statistics %+v", s)
		}
	})
}

func TestEmptyRouting(t *testing.T) {
	s := mustNew(t, "uniform", v3(0), 1).Stats()
	if s.Gini != 0 || s.MaxMeanExpert != 1 || s.MaxMeanPair != 1 || math.Abs(s.EffectiveExperts-256) > 1e-9 {
		t.Errorf("an empty routing is not even: %+v", s)
	}
}

func TestFit(t *testing.T) {
	if raceEnabled {
		t.Skip("arithmetic of one goroutine; left out under the race detector")
	}
	for _, spec := range []string{"zipf:1.2", "lognormal:0.8", "powerlaw:1.5:300.0", "khot:16:0.6", "one:0.9", "uniform", "dirichlet:0.5"} {
		counts := mustNew(t, spec, v3(8192), 3).TotalCounts()
		fits, noise, err := FitCounts(counts, 8)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(spec, ":")
		// Dirichlet is fitted to the mean of many draws, not to one draw.
		bound := 2*noise + 0.002
		if name == "dirichlet" {
			bound = 0.05
		}
		for _, f := range fits {
			if fitted, _, _ := strings.Cut(f.Spec, ":"); fitted == name && f.Distance > bound {
				t.Errorf("%s: fitted as %s at distance %.4f, above %.4f", spec, f.Spec, f.Distance, bound)
			}
			mustParse(t, f.Spec)
		}
		if name != "uniform" && name != "dirichlet" && fits[0].Distance > bound {
			t.Errorf("%s: nearest is %s at %.4f", spec, fits[0].Spec, fits[0].Distance)
		}
	}
	if _, _, err := FitCounts(make([]int64, 8), 2); err == nil {
		t.Error("counts of 0 were fitted")
	}
}

// TestBusiestRankReceives: only received messages show the hot rank.
func TestBusiestRankReceives(t *testing.T) {
	hot := Matrix{{9, 1, 5, 1}, {0, 9, 5, 2}, {1, 1, 90, 4}, {1, 1, 5, 9}}
	if got := hot.Busiest(); got != 15 {
		t.Errorf("%d, want 15: rank 2 receives 5 from each other rank, and no rank sends more than 7", got)
	}
	var back Matrix // combine sends the transpose
	for r := range hot {
		back = append(back, nil)
		for o := range hot {
			back[r] = append(back[r], hot[o][r])
		}
	}
	if got := back.Busiest(); got != 15 {
		t.Errorf("%d for the transposed matrix, want 15", got)
	}
}
