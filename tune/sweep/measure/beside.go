package measure

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// besideSamples is the factor by which samples last longer if a product runs: a cost is a
// small difference of two times and has the noise of both.
const besideSamples = 8

// stageTogether holds the rounds of a point in one stage, measured together with a product.
type stageTogether struct {
	stage record.Stage
	times ep.BesideRounds
}

// addBeside adds the times of a round with a product to its line, in full precision, because
// the cost is a small difference of these times.
func addBeside(line *record.Result, got *ep.BesideRounds) error {
	if want := line.Problem.Beside != ""; want != (got != nil) {
		return kernels.Failf(ep.Unstable, "beside: the problem runs %q beside the calls, and the worker's rounds lack it; use a worker that knows products", line.Problem.Beside)
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

// shareBase gives the lines of a block the same times of the product alone, which belong to the
// same rounds, and sets the lines' seconds by them.
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

// Beside returns the times that the latest stage measured of a point together with a
// product, nil if no product ran. The default's twin is the default.
func (r *Runner) Beside(point int) *ep.BesideRounds {
	if point == search.Twin {
		point = r.Default
	}
	if s := r.beside[point]; s != nil {
		return &s.times
	}
	return nil
}
