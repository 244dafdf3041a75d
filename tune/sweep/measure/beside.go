package measure

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// besideSamples multiplies the length of a sample beside a matrix product. Its result is a small difference of noisy
// times, so it must be longer than other samples.
const besideSamples = 8

type stageTogether struct {
	stage record.Stage
	times ep.BesideRounds
}

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

// shareBase gives all lines of a block the same times of the matrix product without calls.
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

// Beside returns a point's times beside a matrix product in the latest stage that timed the point, or nil.
func (r *Runner) Beside(point int) *ep.BesideRounds {
	if point == search.Twin {
		point = r.Default
	}
	if s := r.beside[point]; s != nil {
		return &s.times
	}
	return nil
}
