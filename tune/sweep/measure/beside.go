package measure

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// besideSamples is the factor by which samples last longer if a matrix product runs. The cost of a
// config is a small difference of two noisy times, and longer samples have less noise.
const besideSamples = 8

// stageTogether holds the rounds that a point had in one stage while a matrix product ran.
type stageTogether struct {
	stage record.Stage
	times ep.BesideRounds
}

// addBeside adds the times of a round with a matrix product to its line, with all digits.
func addBeside(line *record.Result, got *ep.BesideRounds) error {
	switch has := line.Problem.Beside != ""; {
	case has && got == nil:
		return kernels.Failf(ep.Unstable, "beside: the problem runs %q beside the calls, but the worker's rounds have no times of it; use a worker that supports matrix products", line.Problem.Beside)
	case !has && got != nil:
		return kernels.Failf(ep.Unstable, "beside: the worker's rounds have times of a matrix product, but the problem has none; use the worker of this build")
	}
	if got == nil {
		return nil
	}
	if err := got.Validate(1, line.Problem.Ranks); err != nil {
		return kernels.Failf(ep.Unstable, "%v", err)
	}
	if line.Beside == nil {
		line.Beside = &ep.BesideRounds{}
	}
	line.Beside.Append(got)
	return nil
}

// shareBase gives all lines of a block the same times of the product alone, because the lines
// belong to the same rounds. Then it computes the seconds of each line.
func shareBase(lines []record.Result) {
	var all []*ep.BesideRounds
	for i := range lines {
		if lines[i].Status == ep.OK && lines[i].Beside != nil {
			all = append(all, lines[i].Beside)
		}
	}
	ep.ShareBase(all)
	for i := range lines {
		line := &lines[i]
		if line.Status != ep.OK || line.Beside == nil {
			continue
		}
		line.Seconds = nil
		for _, ranks := range line.Beside.Seconds(line.Problem.Objective) {
			line.Seconds = append(line.Seconds, rounded(ranks))
		}
	}
}

// rememberBeside keeps a point's rounds of the latest stage that timed it.
func (r *Runner) rememberBeside(point int, line *record.Result) {
	if line.Beside == nil {
		return
	}
	s := r.beside[point]
	if s == nil || s.stage != line.Stage {
		s = &stageTogether{stage: line.Stage}
		r.beside[point] = s
	}
	s.times.Append(line.Beside)
}

// Beside returns the times of a point with a matrix product in the latest stage that timed the
// point. It returns nil if no product ran. For the default's twin it returns the default's times.
func (r *Runner) Beside(point int) *ep.BesideRounds {
	if point == search.Twin {
		point = r.Default
	}
	if s := r.beside[point]; s != nil {
		return &s.times
	}
	return nil
}
