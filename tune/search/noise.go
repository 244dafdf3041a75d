package search

import (
	"math"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/tune/stat"
)

// screenRounds is how often a strategy times a new point: so often that the standard error of
// its median is no more than the band, by the noise seen so far.
func (s *State) screenRounds() int {
	noise := s.noise()
	if s.Band <= 0 || noise == 0 {
		return ScreenRounds
	}
	wanted := math.Pi / 2 * math.Pow(noise/s.Band, 2) // of normal data, the median's variance is that of the mean times this
	return int(min(max(math.Ceil(wanted), ScreenRounds), mostScreenRounds))
}

// noise is the standard deviation of a sample within a round, relative to its time: the median
// over points of what their samples vary by. Points of one sample say nothing.
func (s *State) noise() float64 {
	var variances []float64
	for _, f := range s.adjusted() {
		if freedom := float64(len(f.adjusted) - 1); freedom > 0 {
			// The median of a chi-square variable over its degrees of freedom (Wilson and
			// Hilferty 1931).
			middle := math.Pow(1-2/(9*freedom), 3)
			variances = append(variances, gonum.Variance(f.adjusted, nil)/middle)
		}
	}
	if len(variances) == 0 {
		return 0
	}
	return math.Sqrt(stat.Median(variances))
}
