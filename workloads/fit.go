package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Fit is a distribution that was fitted to recorded loads.
type Fit struct {
	Spec string
	// Distance is the total variation distance, 0 to 1, between the experts' sorted shares in the recording and in the
	// fit.
	Distance float64
}

// FitCounts fits every parametric distribution to the sorted loads of experts, and returns the
// nearest fit first. `noise` is the distance that a perfect fit would have from a finite recording.
func FitCounts(counts []int64, topK int) (fits []Fit, noise float64, err error) {
	sum := int64(0)
	for _, n := range counts {
		sum += n
	}
	if sum == 0 || topK < 1 || topK > len(counts) {
		return nil, 0, fmt.Errorf("fit: %d selections of %d experts with top-%d; there is nothing to fit", sum, len(counts), topK)
	}
	f := fitter{want: floats(counts), k: topK}
	slices.Sort(f.want)
	for i := range f.want {
		f.want[i] *= float64(topK) / float64(sum)
		noise += math.Sqrt(2/math.Pi*f.want[i]/float64(topK)/float64(sum)) / 2
	}
	for _, c := range candidates {
		if fit, err := c(f); err == nil {
			fits = append(fits, fit)
		}
	}
	if fits == nil {
		return nil, 0, errors.New("fit: no distribution reaches these loads")
	}
	slices.SortStableFunc(fits, func(a, b Fit) int { return cmp.Compare(a.Distance, b.Distance) })
	return fits, noise, nil
}

type fitter struct {
	want []float64
	k    int
}

var candidates = []func(f fitter) (Fit, error){
	fitter.uniform, fitter.zipf, fitter.lognormal, fitter.powerlaw, fitter.dirichlet, fitter.khot, fitter.one,
}

func (f fitter) uniform() (Fit, error) {
	return Fit{"uniform", f.distance(twoLevels(len(f.want), 0, 0, 1))}, nil
}

func (f fitter) zipf() (Fit, error) {
	a, d := minimum(0, 6, func(a float64) float64 {
		return f.compare(newUrn(zipfWeights(len(f.want), a)).shares(f.k))
	})
	return Fit{"zipf:" + round(a), d}, nil
}

func (f fitter) lognormal() (Fit, error) {
	sigma, d := minimum(0, 5, func(sigma float64) float64 {
		load, _ := lognormal(f.drawRequest(), sigma)
		return f.distance(load)
	})
	return Fit{"lognormal:" + round(sigma), d}, nil
}

func (f fitter) powerlaw() (Fit, error) {
	at := func(logSpan float64) (a, d float64) {
		return minimum(0, 4, func(a float64) float64 { return f.distance(powerlaw(f.drawRequest(), a, math.Exp(logSpan))) })
	}
	logSpan, d := minimum(0, math.Log(1e6), func(s float64) float64 { _, d := at(s); return d })
	a, _ := at(logSpan)
	return Fit{"powerlaw:" + round(a) + ":" + round(math.Exp(logSpan)), d}, nil
}

func (f fitter) dirichlet() (Fit, error) {
	alpha, d := minimum(math.Log(0.02), math.Log(1000), func(logAlpha float64) float64 {
		mean := make([]float64, len(f.want))
		for seed := range uint64(16) {
			s := f.drawRequest()
			s.seed = seed
			load, _ := dirichlet(s, math.Exp(logAlpha))
			for i, v := range slices.Sorted(slices.Values(shares(load, f.k))) {
				mean[i] += v / 16
			}
		}
		return f.compare(mean)
	})
	return Fit{"dirichlet:" + round(math.Exp(alpha)), d}, nil
}

// khot tries every k up to 64, and then takes larger steps.
func (f fitter) khot() (Fit, error) {
	best := Fit{Distance: math.Inf(1)}
	top, n, next := 0.0, len(f.want), 1
	for k := 1; k < n; k++ {
		top += f.want[n-k]
		if k < next {
			continue
		}
		next = k + 1 + k/64
		part := top / float64(f.k)
		load, err := khot(f.drawRequest(), k, part)
		if err != nil {
			continue
		}
		if d := f.distance(load); d < best.Distance {
			best = Fit{fmt.Sprintf("khot:%d:%s", k, round(part)), d}
		}
	}
	if math.IsInf(best.Distance, 1) {
		return best, errors.New("khot: every expert is always chosen")
	}
	return best, nil
}

func (f fitter) one() (Fit, error) {
	top := min(f.want[len(f.want)-1], 1)
	load, err := one(f.drawRequest(), top)
	if err != nil {
		return Fit{}, err
	}
	return Fit{"one:" + round(top), f.distance(load)}, nil
}

func (f fitter) drawRequest() drawRequest {
	var s drawRequest
	s.Experts, s.TopK, s.Ranks = len(f.want), f.k, 1
	return s
}

func (f fitter) distance(load []float64) float64 { return f.compare(shares(load, f.k)) }

func (f fitter) compare(share []float64) float64 {
	d := 0.0
	for i, v := range slices.Sorted(slices.Values(share)) {
		d += math.Abs(v - f.want[i])
	}
	return d / float64(2*f.k)
}

func minimum(lo, hi float64, f func(x float64) float64) (x, y float64) {
	const steps = 20
	best, least := 0, math.Inf(1)
	for i := range steps + 1 {
		if v := f(lo + (hi-lo)*float64(i)/steps); v < least {
			best, least = i, v
		}
	}
	a := lo + (hi-lo)*float64(max(best-1, 0))/steps
	b := lo + (hi-lo)*float64(min(best+1, steps))/steps
	const golden = 0.6180339887498949
	l, r := b-golden*(b-a), a+golden*(b-a)
	atL, atR := f(l), f(r)
	for range 16 {
		if atL < atR {
			b, r, atR = r, l, atL
			l = b - golden*(b-a)
			atL = f(l)
		} else {
			a, l, atL = l, r, atR
			r = a + golden*(b-a)
			atR = f(r)
		}
	}
	if atL < atR {
		return l, atL
	}
	return r, atR
}

func round(v float64) string {
	return param{}.format(math.Round(v*1000) / 1000)
}
