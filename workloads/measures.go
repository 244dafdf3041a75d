package workloads

import (
	"math"
	"slices"
)

// Measures of a load, which may be counts or expected shares. A load of zeros
// counts as even. Targets are solved on these measures, so sums run in a fixed
// order and without fused operations.

// gini is the Gini coefficient: 0 for an even load, (n-1)/n when one holds all.
func gini(load []float64) float64 {
	s := slices.Sorted(slices.Values(load))
	n := float64(len(s))
	sum, ranked := 0.0, 0.0
	for i, v := range s {
		sum += v
		ranked += float64(float64(i+1) * v)
	}
	if sum == 0 {
		return 0
	}
	return float64(2*ranked)/float64(n*sum) - (n+1)/n
}

// maxMean is the largest load over the mean.
func maxMean(load []float64) float64 {
	sum, top := 0.0, 0.0
	for _, v := range load {
		sum += v
		top = max(top, v)
	}
	if sum == 0 {
		return 1
	}
	return float64(top*float64(len(load))) / sum
}

// entropy is Shannon's, in nats.
func entropy(load []float64) float64 {
	sum := 0.0
	for _, v := range load {
		sum += v
	}
	if sum == 0 {
		return ln(float64(len(load)))
	}
	h := 0.0
	for _, v := range load {
		if v > 0 {
			h -= float64(v / sum * ln(v/sum))
		}
	}
	return max(h, 0)
}

// variation is the coefficient of variation: standard deviation over mean.
func variation(load []float64) float64 {
	sum, sq := 0.0, 0.0
	for _, v := range load {
		sum += v
		sq += float64(v * v)
	}
	if sum == 0 {
		return 0
	}
	n := float64(len(load))
	return math.Sqrt(max(0, float64(sq*n)/float64(sum*sum)-1))
}

// top20 is the share of the fifth of the experts with the largest loads. With
// fewer than five experts it is the share of one.
func top20(load []float64) float64 {
	s := slices.Sorted(slices.Values(load))
	sum, top := 0.0, 0.0
	for i, v := range s {
		sum += v
		if len(s)-i <= max(1, len(s)/5) {
			top += v
		}
	}
	if sum == 0 {
		return 0.2
	}
	return top / sum
}
