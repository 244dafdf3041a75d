package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// surrogate is a Gaussian process over the points of one kernel: what the measured ones
// say about the others. The correlation of two points is the product over axes of
// exp(-roughness * distance) (Rasmussen and Williams 2006, section 4.2): landscapes of
// launch parameters have kinks, which smoother correlations overshoot.
//
// A search of 25 points knows two or three of a kernel, and likelihood alone trusts them too
// much. So all four values have a prior. That of mean and variance comes from the scores of all
// kernels, that of roughness and nugget from recorded spaces. On spaces of 2 H200 likelihood
// alone lost 1.53 and 0.34 % at 25 and 50 points, priors 1.41 and 0.23, before kernels shared one.
type surrogate struct {
	roughness   []float64          // by axis
	nugget      float64            // variance of a score, as a share of the landscape's
	kernels     *kernelCorrelation // nil in a process over one kernel
	prior       prior
	learnedFrom int // points that roughness and nugget were learned from

	at       [][]float64 // coordinates of the measured points
	chol     mat.Cholesky
	alpha    *mat.VecDense // R^-1 (y - mean)
	mean     float64
	variance float64
}

// kernelCorrelation make a process one over several kernels: behind the axes, a point then has the number
// of its kernel as its last coordinate. Each kernel has a level of its own, and the same
// parameters do much the same in all, but not quite.
type kernelCorrelation struct {
	level  float64 // variance of the levels, as a share of the landscape's
	params float64 // correlation of what parameters do in two kernels
}

// Values that learn chooses from, a step apart.
var (
	roughnesses       = []float64{0.03, 0.1, 0.3, 1, 3}
	nuggets           = []float64{0.001, 0.01, 0.1}
	levels            = []float64{0, 0.2, 0.4, 0.6, 0.8, 0.9}
	paramCorrelations = []float64{0, 0.25, 0.5, 0.75, 0.9}
)

// The prior of these: the usual value costs nothing, n steps from it cost
// n * n * stepCost. Costs are logarithms of likelihood.
const (
	usualRoughness = 0.1
	usualNugget    = 0.01
	usualLevel     = 0.6
	usualParams    = 0.5
	stepCost       = 0.5
)

// prior is the mean and the variance of a kernel's scores before any of them is known.
type prior struct{ mean, variance float64 }

// The prior's mean counts as one measured point, its variance as two.
const (
	meanPoints     = 1
	variancePoints = 2
)

// priorOf is the prior that scores of any kernels give for one of them.
func priorOf(scores []float64) prior {
	mean, variance := stat.PopMeanVariance(scores, nil)
	return prior{mean, variance}
}

func newSurrogate(axes int) *surrogate {
	p := &surrogate{roughness: make([]float64, axes), nugget: usualNugget}
	for i := range p.roughness {
		p.roughness[i] = usualRoughness
	}
	return p
}

// newCrossKernelSurrogate is a process over several kernels.
func newCrossKernelSurrogate(axes int) *surrogate {
	p := newSurrogate(axes)
	p.kernels = &kernelCorrelation{usualLevel, usualParams}
	return p
}

// correlation of two points.
func (p *surrogate) correlation(x, y []float64) float64 {
	sum := 0.0
	for a, r := range p.roughness {
		sum += r * math.Abs(x[a]-y[a])
	}
	near, n := math.Exp(-sum), len(p.roughness)
	switch {
	case p.kernels == nil:
		return near
	case x[n] == y[n]:
		return p.kernels.level + (1-p.kernels.level)*near
	}
	return (1 - p.kernels.level) * p.kernels.params * near
}

// logPrior is the logarithm of the prior of roughness, nugget and kinds.
func (p *surrogate) logPrior() float64 {
	cost := stepsApart(nuggets, p.nugget, usualNugget)
	for _, r := range p.roughness {
		cost += stepsApart(roughnesses, r, usualRoughness)
	}
	if p.kernels != nil {
		cost += stepsApart(levels, p.kernels.level, usualLevel) + stepsApart(paramCorrelations, p.kernels.params, usualParams)
	}
	return -stepCost * cost
}

// stepsApart is the square of the distance between two of the values, in steps.
func stepsApart(values []float64, a, b float64) float64 {
	d := slices.Index(values, a) - slices.Index(values, b)
	return float64(d * d)
}

// update takes in what was measured, and learns where a quarter more is known than the last time.
func (p *surrogate) update(at [][]float64, y []float64) {
	if len(y) < p.learnedFrom+max(2, p.learnedFrom/4) {
		p.fit(at, y)
		return
	}
	p.learn(at, y)
	p.learnedFrom = len(y)
}

// learn moves roughness, nugget and kinds to likelier values, one after the other and a step at
// a time, and fits. It is called again and again as points come in, so that one pass will
// do.
func (p *surrogate) learn(at [][]float64, y []float64) {
	best := p.fit(at, y) + p.logPrior()
	try := func(slot *float64, values []float64) {
		keep := slices.Index(values, *slot)
		for _, step := range []int{-1, 1} {
			for i := keep + step; i >= 0 && i < len(values); i += step {
				*slot = values[i]
				l := p.fit(at, y) + p.logPrior()
				if l <= best {
					break
				}
				best, keep = l, i
			}
		}
		*slot = values[keep]
	}
	for a := range p.roughness {
		try(&p.roughness[a], roughnesses)
	}
	try(&p.nugget, nuggets)
	if p.kernels != nil {
		try(&p.kernels.level, levels)
		try(&p.kernels.params, paramCorrelations)
	}
	p.fit(at, y)
}

// fit takes in what was measured, and returns the logarithm of its likelihood, with
// mean and variance at their most likely values under the prior, up to a constant.
func (p *surrogate) fit(at [][]float64, y []float64) float64 {
	n := len(y)
	p.at = at
	r := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i {
			r.SetSym(i, j, p.correlation(at[i], at[j]))
		}
		r.SetSym(i, i, 1+p.nugget)
	}
	if !p.chol.Factorize(r) {
		return math.Inf(-1)
	}
	ones, z, rest := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		ones.SetVec(i, 1)
	}
	_ = p.chol.SolveVecTo(z, ones) // a condition number is no failure here: the nugget bounds it
	p.mean = (mat.Dot(z, mat.NewVecDense(n, y)) + meanPoints*p.prior.mean) / (mat.Dot(z, ones) + meanPoints)
	for i := range n {
		rest.SetVec(i, y[i]-p.mean)
	}
	p.alpha = mat.NewVecDense(n, nil)
	_ = p.chol.SolveVecTo(p.alpha, rest)
	p.variance = max((mat.Dot(rest, p.alpha)+variancePoints*p.prior.variance)/float64(n+variancePoints), 1e-12)
	return -0.5 * (float64(n)*math.Log(p.variance) + p.chol.LogDet())
}

// predict is the expected score of a point.
func (p *surrogate) predict(x []float64) float64 {
	sum := p.mean
	for i, y := range p.at {
		sum += p.correlation(x, y) * p.alpha.AtVec(i)
	}
	return sum
}

// deviations are the standard deviations of points' scores.
func (p *surrogate) deviations(xs [][]float64) []float64 {
	n, out := len(p.at), make([]float64, len(xs))
	if len(xs) == 0 {
		return out
	}
	var inverse mat.SymDense
	_ = p.chol.InverseTo(&inverse)
	k, v := mat.NewDense(len(xs), n, nil), mat.NewDense(len(xs), n, nil)
	for i, x := range xs {
		for j, y := range p.at {
			k.Set(i, j, p.correlation(x, y))
		}
	}
	v.Mul(k, &inverse)
	for i := range xs {
		out[i] = math.Sqrt(p.variance * max(1-floats.Dot(k.RawRowView(i), v.RawRowView(i)), 1e-9))
	}
	return out
}

// leaveOneOut says of each measured score how likely all the others made it: the logarithm of
// its density, up to a constant (Rasmussen and Williams 2006, section 5.4.2).
func (p *surrogate) leaveOneOut() []float64 {
	out := make([]float64, len(p.at))
	if len(out) == 0 {
		return out
	}
	var inverse mat.SymDense
	_ = p.chol.InverseTo(&inverse)
	for i := range out {
		variance, off := p.variance/inverse.At(i, i), p.alpha.AtVec(i)/inverse.At(i, i)
		out[i] = -0.5 * (math.Log(variance) + off*off/variance)
	}
	return out
}

// expectedImprovement is by how much a point is expected to be below least, where it is
// (Jones, Schonlau and Welch 1998).
func expectedImprovement(least, expect, doubt float64) float64 {
	z := (least - expect) / doubt
	return (least-expect)*distuv.UnitNormal.CDF(z) + doubt*distuv.UnitNormal.Prob(z)
}
