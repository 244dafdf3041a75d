package workloads

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// level is the p-value below which a test fails. Seeds are fixed.
const level = 1e-4

// chiSquare tests counts with `free` degrees of freedom.
func chiSquare(t *testing.T, what string, got, want []float64, free int) {
	t.Helper()
	x := stat.ChiSquare(got, want)
	if p := (distuv.ChiSquared{K: float64(free)}).Survival(x); p < level {
		t.Errorf("%s: chi-square %.1f with %d degrees of freedom, p = %.2g", what, x, free, p)
	}
}

func kolmogorov(t *testing.T, what string, sample []float64, cdf func(float64) float64) {
	t.Helper()
	s := slices.Sorted(slices.Values(sample))
	n, d := float64(len(s)), 0.0
	for i, x := range s {
		f := cdf(x)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	if bound := math.Sqrt(-math.Log(level/2) / 2 / n); d > bound {
		t.Errorf("%s: Kolmogorov-Smirnov distance %.4f, at most %.4f expected for %d values", what, d, bound, len(s))
	}
}

func TestTopOneShares(t *testing.T) {
	const experts, tokens = 64, 20000
	even := twoLevels(experts, 0, 0, 1)
	for spec, load := range map[string][]float64{
		"uniform":          even,
		"grouped:8:4":      even,
		"masked:0.2":       even,
		"zipf:1.0":         zipfWeights(experts, 1),
		"zipf:2.5":         zipfWeights(experts, 2.5),
		"khot:4:0.7":       twoLevels(experts, 4, 0.7/4, 0.3/60),
		"one:0.6":          twoLevels(experts, 1, 0.6, 0.4/63),
		"hotrank:3.0":      twoLevels(experts, 16, 0.75/16, 0.25/48),
		"powerlaw:1.2:9.0": powerlaw(drawRequest{Problem: shape(4, experts, 1, 1)}, 1.2, 9),
		"lognormal:0.7":    must(lognormal(drawRequest{Problem: shape(4, experts, 1, 1)}, 0.7)),
		"dirichlet:2.0":    must(dirichlet(drawRequest{Problem: shape(4, experts, 1, 1), seed: 11}, 2)),
	} {
		w := mustNew(t, spec, shape(4, experts, 1, tokens), 11)
		got := floats(w.TotalCounts())
		n := 0.0
		for _, v := range got {
			n += v
		}
		if spec != "dirichlet:2.0" && spec != "hotrank:3.0" { // only these laws do not shuffle experts
			load = scatter(load, 11)
		}
		want := shares(load, 1)
		for e := range want {
			want[e] *= n
		}
		chiSquare(t, spec, got, want, experts-1)
	}
}

func must(load []float64, _ error) []float64 { return load }

// TestShares allows five standard deviations.
func TestShares(t *testing.T) {
	const tokens = 4096
	for _, spec := range []string{"khot:32:0.9", "one:0.9", "hotrank:2.0", "powerlaw:1.01", "lognormal:0.5", "dirichlet:0.3", "lognormal:3.0"} {
		r := mustParse(t, spec)
		b, _ := r.batch(v3(tokens), 7)
		f := r.loadLaw
		share, err := f.shares(b.drawRequest, f.x)
		if err != nil {
			t.Fatal(err)
		}
		if !f.fixed {
			share = scatter(share, 7)
		}
		const n = 8 * tokens
		for e, c := range mustNew(t, spec, v3(tokens), 7).TotalCounts() {
			sd := math.Sqrt(n * share[e] * (1 - share[e]))
			if z := (float64(c) - n*share[e]) / max(sd, 1e-9); math.Abs(z) > 5 && math.Abs(float64(c)-n*share[e]) > 1 {
				t.Errorf("%s: expert %d has %d visits, share %.5f of %d tokens expected (z = %.1f)", spec, e, c, share[e], n, z)
			}
		}
	}
}

func TestQuantileLoads(t *testing.T) {
	s := drawRequest{Problem: shape(8, 256, 8, 1)}
	for what, c := range map[string]struct {
		load []float64
		cdf  func(x float64) float64
	}{
		"lognormal:0.8":              {must(lognormal(s, 0.8)), distuv.LogNormal{Sigma: 0.8}.CDF},
		"powerlaw:1.2:1000":          {powerlaw(s, 1.2, 1000), paretoCDF(1.2, 1000)},
		"powerlaw:1:50":              {powerlaw(s, 1, 50), func(x float64) float64 { return math.Log(x) / math.Log(50) }},
		"powerlaw:0:50":              {powerlaw(s, 0, 50), paretoCDF(0, 50)},
		"powerlaw:1.01, 8192 tokens": {powerlaw(drawRequest{Problem: s.Problem, size: []int{4096, 4096}}, 1.01, math.NaN()), paretoCDF(1.01, 0.8*8192)},
	} {
		for i, x := range slices.Sorted(slices.Values(c.load)) {
			if want := (float64(i) + 0.5) / 256; math.Abs(c.cdf(x)-want) > 1e-6 {
				t.Errorf("%s: load %d is %v, the quantile of %v and not of %v", what, i, x, c.cdf(x), want)
			}
		}
	}
}

func paretoCDF(a, span float64) func(x float64) float64 {
	return func(x float64) float64 { return (math.Pow(x, 1-a) - 1) / (math.Pow(span, 1-a) - 1) }
}

func TestDirichlet(t *testing.T) {
	for _, alpha := range []float64{0.05, 0.5, 1, 3, 200} {
		var g, first []float64
		for seed := range uint64(2000) {
			g = append(g, gamma(newRNG(seed, 77), alpha))
			load, _ := dirichlet(drawRequest{Problem: shape(1, 4, 1, 1), seed: seed}, alpha)
			first = append(first, load[0]/(load[0]+load[1]+load[2]+load[3]))
		}
		floor := func(x float64) float64 { // gamma never returns 0
			if x <= 1e-12 {
				return 1
			}
			return mathext.GammaIncReg(alpha, x)
		}
		if alpha >= 0.5 {
			kolmogorov(t, "gamma", g, floor)
		}
		kolmogorov(t, "Dirichlet marginal", first, distuv.Beta{Alpha: alpha, Beta: 3 * alpha}.CDF)
	}
}

// naive returns the k experts with the largest scores, largest first.
func naive(r *rng, score func(e int) float64, experts, k int) []int32 {
	s := make([]float64, experts)
	for e := range s {
		s[e] = score(e)
	}
	ids := newIdentity(experts)
	slices.SortFunc(ids, func(a, b int32) int { return int(math.Copysign(1, s[b]-s[a])) })
	return ids[:k]
}

func TestZipfIsGumbelTopK(t *testing.T) {
	const experts, k, tokens = 24, 6, 40000
	for _, a := range []float64{0.5, 1, 3} {
		weights, u := zipfWeights(experts, a), newUrn(zipfWeights(experts, a))
		fast, slow := make([]float64, k*experts), make([]float64, k*experts) // [position, expert]
		r, o, dst := newRNG(1), newRNG(2), make([]int32, k)
		for range tokens {
			u.draw(r, 0, dst)
			ref := naive(o, func(e int) float64 { return math.Log(weights[e]) - math.Log(-math.Log(o.float())) }, experts, k)
			for i := range dst {
				fast[i*experts+int(dst[i])]++
				slow[i*experts+int(ref[i])]++
			}
		}
		twoSamples(t, "zipf by position", fast, slow)
		for e, s := range u.shares(k) {
			got := 0.0
			for i := range k {
				got += fast[i*experts+e] / tokens
			}
			if math.Abs(got-s) > 5*math.Sqrt(s*(1-s)*(1.0/tokens+1.0/8192))+1e-4 {
				t.Errorf("zipf:%v: expert %d has share %.4f, estimated as %.4f", a, e, got, s)
			}
		}
	}
}

// twoSamples tests whether two samples of equal size follow the same law.
func twoSamples(t *testing.T, what string, a, b []float64) {
	t.Helper()
	x, free := 0.0, 0
	for i := range a {
		if a[i]+b[i] >= 10 {
			x += (a[i] - b[i]) * (a[i] - b[i]) / (a[i] + b[i])
			free++
		}
	}
	if p := (distuv.ChiSquared{K: float64(free)}).Survival(x); p < level {
		t.Errorf("%s: chi-square %.1f over %d cells, p = %.2g", what, x, free, p)
	}
}

// TestGroupedIsGroupLimitedTopK compares with DeepSeek-V3's rule, written out.
func TestGroupedIsGroupLimitedTopK(t *testing.T) {
	const experts, groups, take, k, tokens = 32, 8, 3, 6, 40000
	const size = experts / groups
	l := limited{grouped{groups, take}, size}
	ids := make([]int32, tokens*k)
	l.fill(newRNG(1), chunk{k: k, ids: ids})
	o := newRNG(2)
	fast, slow := make([]float64, 1000), make([]float64, 1000)
	for i := range tokens {
		score := make([]float64, experts)
		for e := range score {
			score[e] = o.float()
		}
		best := naive(o, func(g int) float64 {
			s := slices.Sorted(slices.Values(score[g*size : (g+1)*size]))
			return s[size-1] + s[size-2]
		}, groups, take)
		ref := naive(o, func(e int) float64 {
			if !slices.Contains(best, int32(e/size)) {
				return -1
			}
			return score[e]
		}, experts, k)
		fast[pattern(ids[i*k:(i+1)*k], size)]++
		slow[pattern(ref, size)]++
	}
	twoSamples(t, "experts per group", fast, slow)
}

// pattern returns the number of experts in each group as digits, such as 411.
func pattern(ids []int32, size int) int {
	var seen []int32
	var n []int
	for _, e := range ids {
		g := e / int32(size)
		i := slices.Index(seen, g)
		if i < 0 {
			seen, n, i = append(seen, g), append(n, 0), len(n)
		}
		n[i]++
	}
	out := 0
	for _, v := range n {
		out = out*10 + v
	}
	return out
}

func TestPairs(t *testing.T) {
	const experts, k, tokens = 12, 4, 60000
	f, _ := uniform(drawRequest{Problem: shape(1, experts, k, tokens)})
	even := newPoisson(shares(twoLevels(experts, 0, 0, 1), k), k)
	deal, _ := balanced(drawRequest{Problem: shape(1, experts, k, tokens)})
	for what, fill := range map[string]filler{"uniform": f, "even shares": eachToken(even.draw), "balanced": deal} {
		ids := make([]int32, tokens*k)
		fill.fill(newRNG(5), chunk{k: k, ids: ids})
		got := make([]float64, experts*experts)
		for i := 0; i < len(ids); i += k {
			for a := range k {
				for b := range k {
					if ids[i+a] < ids[i+b] {
						got[int(ids[i+a])*experts+int(ids[i+b])]++
					}
				}
			}
		}
		var have, want []float64
		for i, n := range got {
			if i/experts < i%experts {
				have = append(have, n)
				want = append(want, tokens*k*(k-1)/2/66.0)
			}
		}
		chiSquare(t, what, have, want, 65)
	}
}

func TestMaskedAndRaggedAreEven(t *testing.T) {
	w := mustNew(t, "masked:0.5", shape(1, 16, 8, 40000), 3)
	at, want := make([]float64, 8), make([]float64, 8)
	for i, e := range w.Ranks[0].Experts {
		want[i%8] = 20000
		if e < 0 {
			at[i%8]++
		}
	}
	chiSquare(t, "masked positions", at, want, 7)
	var sizes []float64
	for seed := range uint64(300) {
		s, _ := ragged(newRNG(seed), 8, 0, 999)
		ends := 0
		for _, n := range s {
			if (n == 0 || n == 999) && ends < 2 {
				ends++
				continue
			}
			sizes = append(sizes, (float64(n)+0.5)/1000)
		}
	}
	kolmogorov(t, "ragged sizes", sizes, func(x float64) float64 { return x })
}

// TestGates compares the largest weight with softmax and sigmoid of normal logits.
func TestGates(t *testing.T) {
	const tokens, k = 20000, 4
	for what, c := range map[string]struct {
		g gate
		f func(z float64) float64
	}{
		"softmax": {softmax, math.Exp},
		"sigmoid": {sigmoid, func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }},
	} {
		w := make([]float32, tokens*k)
		c.g.fill(newRNG(1), k, w)
		r, normal := newRNG(2), distuv.UnitNormal
		var fast, slow []float64
		for i := range tokens {
			top, sum := 0.0, 0.0
			for range k {
				v := c.f(normal.Quantile(r.float()))
				top, sum = max(top, v), sum+v
			}
			fast, slow = append(fast, float64(w[i*k])), append(slow, top/sum)
			if !slices.IsSortedFunc(w[i*k:(i+1)*k], func(a, b float32) int { return int(math.Copysign(1, float64(b-a))) }) {
				t.Fatalf("%s: weights %v do not descend", what, w[i*k:(i+1)*k])
			}
		}
		slices.Sort(fast)
		slices.Sort(slow)
		d := stat.KolmogorovSmirnov(fast, nil, slow, nil)
		if bound := math.Sqrt(-math.Log(level/2) / tokens); d > bound {
			t.Errorf("%s: two-sample Kolmogorov-Smirnov distance %.4f, at most %.4f expected", what, d, bound)
		}
	}
}

func TestPortableFunctions(t *testing.T) {
	for x := 1e-12; x < 1e12; x *= 1.37 {
		if got := ln(x); math.Abs(got-math.Log(x)) > 1e-14*max(1, math.Abs(math.Log(x))) {
			t.Errorf("ln(%v) = %v, want %v", x, got, math.Log(x))
		}
	}
	for x := -300.0; x < 300; x += 0.77 {
		if got := exp(x); math.Abs(got/math.Exp(x)-1) > 1e-14 {
			t.Errorf("exp(%v) = %v, want %v", x, got, math.Exp(x))
		}
	}
	for p := 1e-12; p < 1; p += 0.00317 {
		if got, want := quantile(p), distuv.UnitNormal.Quantile(p); math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
			t.Errorf("quantile(%v) = %v, want %v", p, got, want)
		}
	}
}
