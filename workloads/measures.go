package workloads

import (
	"math"
	"slices"
)

// The functions of this file return the same bits on every machine: sums run in a fixed order, and float64() prevents
// fused operations. So a routing that is fitted to one of these statistics is also the same on every machine.

func total(load []float64) float64 {
	sum := 0.0
	for _, v := range load {
		sum += v
	}
	return sum
}

// gini returns the Gini coefficient, which is 0 for an even load.
func gini(load []float64) float64 {
	s := slices.Sorted(slices.Values(load))
	n, sum, ranked := float64(len(s)), total(s), 0.0
	if sum == 0 {
		return 0
	}
	for i, v := range s {
		ranked += float64(float64(i+1) * v)
	}
	return float64(2*ranked)/float64(n*sum) - (n+1)/n
}

func maxMean(load []float64) float64 {
	sum := total(load)
	if sum == 0 {
		return 1
	}
	return float64(slices.Max(load)*float64(len(load))) / sum
}

// entropy returns Shannon's entropy in nats.
func entropy(load []float64) float64 {
	sum := total(load)
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

// variation returns the standard deviation divided by the mean.
func variation(load []float64) float64 {
	sum, sq := total(load), 0.0
	if sum == 0 {
		return 0
	}
	for _, v := range load {
		sq += float64(v * v)
	}
	return math.Sqrt(max(0, float64(sq*float64(len(load)))/float64(sum*sum)-1))
}

// top20 returns the share of the load that falls on the most loaded fifth of the experts.
func top20(load []float64) float64 {
	s := slices.Sorted(slices.Values(load))
	sum := total(s)
	if sum == 0 {
		return 0.2
	}
	return total(s[len(s)-max(1, len(s)/5):]) / sum
}
