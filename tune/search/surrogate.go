package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A surrogate is a Gaussian process that predicts the scores of points not yet measured. The correlation of two points
// is the product over axes of exp(-roughness * distance) (Rasmussen and Williams 2006, section 4.2). Priors keep the
// surrogate from overfitting a kernel with only two or three measured points.
type surrogate struct {
	roughness   []float64          // by axis
	likely      []float64          // by axis: most likely roughness
	nugget      float64            // variance of a score's error / variance of true scores
	kernels     *kernelCorrelation // nil for one kernel
	usual       priors
	prior       prior
	learnedFrom int // points at the last call of learn

	at       [][]float64 // coordinates of the measured points
	chol     mat.Cholesky
	alpha    *mat.VecDense // R^-1 (y - mean)
	mean     float64
	variance float64
}

// kernelCorrelation extends a surrogate to several kernels. The last coordinate is the kernel's number. Each kernel
// adds a constant, its level, to its scores.
type kernelCorrelation struct {
	level  float64 // variance of the levels / variance of true scores
	params float64 // correlation of a parameter's effects in two kernels
}

var (
	roughnesses       = []float64{0.03, 0.1, 0.3, 1, 3}
	nuggets           = []float64{0.001, 0.01, 0.1}
	levels            = []float64{0, 0.2, 0.4, 0.6, 0.8, 0.9}
	paramCorrelations = []float64{0, 0.25, 0.5, 0.75, 0.9}
)

// prior holds the assumed mean and variance of a kernel's scores.
type prior struct{ mean, variance float64 }

func priorOf(scores []float64) prior {
	mean, variance := stat.PopMeanVariance(scores, nil)
	return prior{mean, variance}
}

// newSurrogate makes a surrogate of one kernel. `values` holds the number of values of each axis.
func newSurrogate(values []int, usual priors) *surrogate {
	p := &surrogate{nugget: usual.nugget, usual: usual}
	for _, n := range values {
		likely := usual.roughness
		if n <= 2 {
			likely = usual.switches
		}
		p.likely = append(p.likely, likely)
	}
	p.roughness = slices.Clone(p.likely)
	return p
}

func newCrossKernelSurrogate(values []int, usual priors) *surrogate {
	p := newSurrogate(values, usual)
	p.kernels = &kernelCorrelation{usual.level, usual.params}
	return p
}

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

func (p *surrogate) logPrior() float64 {
	cost := stepsApart(nuggets, p.nugget, p.usual.nugget)
	for a, r := range p.roughness {
		cost += stepsApart(roughnesses, r, p.likely[a])
	}
	if p.kernels != nil {
		cost += stepsApart(levels, p.kernels.level, p.usual.level) + stepsApart(paramCorrelations, p.kernels.params, p.usual.params)
	}
	return -stepCost * p.usual.strength * cost
}

func stepsApart(values []float64, a, b float64) float64 {
	d := slices.Index(values, a) - slices.Index(values, b)
	return float64(d * d)
}

func (p *surrogate) update(at [][]float64, y []float64) {
	if len(y) < p.learnedFrom+max(2, p.learnedFrom/4) {
		p.fit(at, y)
		return
	}
	p.learn(at, y)
	p.learnedFrom = len(y)
}

// learn sets the fields roughness, nugget and kernels to more likely values, and then calls fit.
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

// fit fits mean, variance and weights to scores, and returns the log likelihood up to a constant.
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
	_ = p.chol.SolveVecTo(z, ones) // an error only reports a large condition number, which the nugget bounds
	weight := meanPoints * p.usual.strength
	p.mean = (mat.Dot(z, mat.NewVecDense(n, y)) + weight*p.prior.mean) / (mat.Dot(z, ones) + weight)
	for i := range n {
		rest.SetVec(i, y[i]-p.mean)
	}
	p.alpha = mat.NewVecDense(n, nil)
	_ = p.chol.SolveVecTo(p.alpha, rest)
	weight = variancePoints * p.usual.strength
	p.variance = max((mat.Dot(rest, p.alpha)+weight*p.prior.variance)/(float64(n)+weight), 1e-12)
	return -0.5 * (float64(n)*math.Log(p.variance) + p.chol.LogDet())
}

func (p *surrogate) predict(x []float64) float64 {
	sum := p.mean
	for i, y := range p.at {
		sum += p.correlation(x, y) * p.alpha.AtVec(i)
	}
	return sum
}

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

// leaveOneOut returns the log density of each score given all others, up to a constant (Rasmussen and Williams 2006,
// section 5.4.2).
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

// expectedImprovement returns how far a normally distributed score falls below `least` on average: the mean of max(0,
// least - score) (Jones, Schonlau and Welch 1998).
func expectedImprovement(least, mean, deviation float64) float64 {
	z := (least - mean) / deviation
	return (least-mean)*distuv.UnitNormal.CDF(z) + deviation*distuv.UnitNormal.Prob(z)
}
