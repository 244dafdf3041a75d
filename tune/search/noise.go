package search

import (
	"math"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/tune/stat"
)

// screenRounds returns the number of rounds after which a new point's standard error is at most s.Band, the
// smallest difference that counts.
func (s *State) screenRounds() int {
	noise := s.noise()
	if s.Band <= 0 || noise == 0 {
		return ScreenRounds
	}
	most := float64(mostScreenRounds)
	if s.Timed() {
		most = mostTimedRounds
	}
	wanted := math.Pi / 2 * math.Pow(noise/s.Band, 2) // see stat.StdErr
	return int(min(max(math.Ceil(wanted), ScreenRounds), most))
}

// noise returns the relative standard deviation of samples: the median over points, or 0 if no point has two samples.
func (s *State) noise() float64 {
	var variances []float64
	for _, f := range s.adjustedPoints() {
		if freedom := float64(len(f.adjusted) - 1); freedom > 0 {
			// the median of chi-square / freedom (Wilson and Hilferty 1931)
			middle := math.Pow(1-2/(9*freedom), 3)
			variances = append(variances, gonum.Variance(f.adjusted, nil)/middle)
		}
	}
	if len(variances) == 0 {
		return 0
	}
	return math.Sqrt(stat.Median(variances))
}
