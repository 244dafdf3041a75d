package workloads

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 9).Draw(t, "ranks")
		local := rapid.IntRange(1, 40).Draw(t, "local experts")
		topK := rapid.IntRange(1, min(32, ranks*local)).Draw(t, "topk")
		p := shape(ranks, ranks*local, topK, rapid.SampledFrom([]int{0, 1, 7, 513}).Draw(t, "tokens"))
		p.SkipA2A = rapid.Bool().Draw(t, "skip")
		spec := rapid.SampledFrom(plainSpecs).Draw(t, "spec")
		seed := rapid.Uint64().Draw(t, "seed")
		d, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		w, err := New(d, p, seed)
		if err != nil {
			return // the law does not fit this shape
		}
		if len(w.Ranks) != ranks {
			t.Fatalf("%d ranks, want %d", len(w.Ranks), ranks)
		}
		for rank, rt := range w.Ranks {
			if rt.Tokens > p.Tokens || len(rt.Experts) != rt.Tokens*topK || len(rt.Weights) != rt.Tokens*topK {
				t.Fatalf("rank %d: %d tokens, %d ids, %d weights", rank, rt.Tokens, len(rt.Experts), len(rt.Weights))
			}
			checkTokens(t, w, rt)
		}
		again, err := New(d, p, seed)
		if err != nil || digest(again) != digest(w) {
			t.Fatalf("a second draw with the same seed differs: %v", err)
		}
	})
}

func checkTokens(t *rapid.T, w *Workload, rt Routing) {
	k := w.Problem.TopK
	for i := 0; i < len(rt.Experts); i += k {
		ids, sum, masked := rt.Experts[i:i+k], float64(0), 0
		for j, e := range ids {
			weight := rt.Weights[i+j]
			switch {
			case e == -1 && weight == 0:
				masked++
			case e < 0 || int(e) >= w.Problem.Experts || slices.Contains(ids[:j], e) || !(weight > 0):
				t.Fatalf("token %d: experts %v, weights %v", i/k, ids, rt.Weights[i:i+k])
			}
			sum += float64(weight)
		}
		if masked < k && math.Abs(sum-1) > 1e-5 {
			t.Fatalf("token %d: weights %v sum to %v", i/k, rt.Weights[i:i+k], sum)
		}
	}
}

func TestReplicatedTokens(t *testing.T) {
	p := v3(32)
	p.SkipA2A = true
	w := mustNew(t, "uniform", p, 1)
	a, b := make([]uint16, 16), make([]uint16, 16)
	for rank := range w.Ranks {
		w.Token(0, 3, a)
		w.Token(rank, 3, b)
		if !slices.Equal(w.Ranks[rank].Experts, w.Ranks[0].Experts) || !slices.Equal(a, b) {
			t.Fatalf("rank %d has other tokens than rank 0", rank)
		}
	}
	if s := w.Stats(); s.Tokens != 32 || s.Selections != 32*8 || s.DistinctRanks < 5 || w.BytesDispatch(Direct) != 0 {
		t.Errorf("statistics of replicated tokens: %+v, %d bytes", s, w.BytesDispatch(Direct))
	}
}

func TestExactCounts(t *testing.T) {
	p := v3(1000)
	for _, spec := range []string{"balanced", "roundrobin", "balanced+ragged:3"} {
		n := mustNew(t, spec, p, 5).TotalCounts()
		if slices.Max(n)-slices.Min(n) > 1 {
			t.Errorf("%s: loads from %d to %d", spec, slices.Min(n), slices.Max(n))
		}
	}
	for _, rt := range mustNew(t, "masked:0.3", p, 5).Ranks {
		masked := 0
		for _, e := range rt.Experts {
			if e < 0 {
				masked++
			}
		}
		if masked != 2400 {
			t.Errorf("%d of 8000 masked, want 2400", masked)
		}
	}
	var sizes []int
	for _, rt := range mustNew(t, "ragged:0:900", p, 5).Ranks {
		sizes = append(sizes, rt.Tokens)
	}
	if slices.Min(sizes) != 0 || slices.Max(sizes) != 900 {
		t.Errorf("ragged sizes %v, want one 0 and one 900", sizes)
	}
	own := func(rank int, e int32) bool { return int(e)/32 == rank }
	for spec, ok := range map[string]func(rank int, e int32) bool{
		"local":     own,
		"remote":    func(rank int, e int32) bool { return !own(rank, e) },
		"all2one:3": func(_ int, e int32) bool { return own(3, e) },
	} {
		for rank, rt := range mustNew(t, spec, p, 5).Ranks {
			for _, e := range rt.Experts {
				if !ok(rank, e) {
					t.Fatalf("%s: rank %d visits expert %d", spec, rank, e)
				}
			}
		}
	}
}

func TestEPLB(t *testing.T) {
	before := mustNew(t, "zipf:1.0", v3(2048), 3)
	after := mustNew(t, "zipf:1.0+eplb:32", shape(8, 288, 8, 2048), 3)
	a, b := before.Stats(), after.Stats()
	if a.Selections != b.Selections || b.MaxMeanRank > 1.03 || a.MaxMeanRank < 1.2 || b.MaxMeanExpert > a.MaxMeanExpert/4 {
		t.Errorf("rank max/mean %.3f became %.3f, expert %.2f became %.2f", a.MaxMeanRank, b.MaxMeanRank, a.MaxMeanExpert, b.MaxMeanExpert)
	}
	if n := after.TotalCounts(); slices.Min(n) == 0 {
		t.Error("a slot is never visited")
	}
}

func TestDrift(t *testing.T) {
	const n, h = 4096, 10
	for step, want := range map[int]float64{0: 1, 1: 0.933, 10: 0.5, 20: 0.25, 40: 0.0625} { // 0.5^(step / h)
		kept := 0.0
		for i, e := range popularityAfter(n, h, step, 9) {
			if int32(i) == e {
				kept += 1.0 / n
			}
		}
		if math.Abs(kept-want) > 5*math.Sqrt(want*(1-want)/n)*2+1e-9 {
			t.Errorf("after %d steps %.4f of the experts kept their popularity, want %.4f", step, kept, want)
		}
	}
	step := 0
	var first, last Stats
	for w, err := range Sequence("zipf:1.0", 4, 9, v3(1024), 2) {
		if err != nil {
			t.Fatal(err)
		}
		last = w.Stats()
		if step == 0 {
			first = last
		}
		if alone := mustNew(t, w.Spec, v3(1024), 2); digest(alone) != digest(w) {
			t.Errorf("step %d differs if it is drawn alone", step)
		}
		step++
	}
	if step != 9 || math.Abs(first.Gini/last.Gini-1) > 0.05 {
		t.Errorf("%d steps, Gini %.3f became %.3f", step, first.Gini, last.Gini)
	}
}
