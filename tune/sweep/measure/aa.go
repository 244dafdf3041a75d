package measure

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// AAStage is the stage of A/A rounds.
const AAStage = "aa"

// quiet is the share of the band that ends the A/A rounds early.
const quiet = 0.7

// ErrDefault says that the library default does not run here: there is
// nothing to compare with.
var ErrDefault = errors.New("the default config failed")

// AA measures the default against itself under a second label, until the
// spread is well inside the band or the rounds allowed are used up, or its
// share of limit, the time of the search, which is 0 for none. What the first
// rounds took does not count: memory, compiling and comparing with the oracle
// are behind it then, and more rounds are cheap. Rounds is also how many a
// comparison on this machine needs: confirmations take no fewer.
func (r *Runner) AA(ctx context.Context, limit time.Duration) (record.AA, error) {
	out := record.AA{Problem: r.Workload.Problem.Key(), Routing: r.Workload.Spec}
	var base, twin []float64
	var first time.Duration
	for out.Rounds < r.Policy.MaxAA {
		samples, err := r.Measure(ctx, AAStage, []int{r.Default, Twin}, r.Policy.AARounds)
		if err != nil {
			return out, err
		}
		if len(samples) < 2*r.Policy.AARounds {
			return out, ErrDefault
		}
		b, t := logs(samples, r.Default), logs(samples, Twin)
		base, twin = append(base, b...), append(twin, t...)
		ratio := stat.MedianRatio(twin, base, r.Seed("aa"))
		out.Rounds, out.Ratio = len(base), ratio.Mid
		r.base = math.Exp(stat.Median(base))
		out.Spread = max(ratio.Half(), math.Abs(ratio.Mid-1))
		if first == 0 {
			first = r.Spent()
		}
		if out.Spread <= quiet*r.Policy.Band || limit > 0 && r.Spent()-first > time.Duration(r.Policy.AAShare*float64(limit)) {
			break
		}
	}
	return out, nil
}

// DefaultTime is the default's median in the A/A rounds, seconds; 0 before.
func (r *Runner) DefaultTime() float64 { return r.base }

func logs(samples []search.Sample, point int) []float64 {
	var out []float64
	for _, s := range samples {
		if s.Point == point {
			out = append(out, math.Log(s.Seconds))
		}
	}
	return out
}

// hostFactor times an empty kernel's reading is where launching, not the
// kernel, sets the time.
const hostFactor = 1.2

// HostBound reports whether a kernel that takes seconds by a clock does
// hardly more than start and stop, given the empty kernel's readings.
func HostBound(seconds float64, clock string, empty map[string]float64) bool {
	reading, ok := empty[clock]
	return ok && seconds <= hostFactor*reading
}
