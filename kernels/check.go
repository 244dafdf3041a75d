package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// The errors of the Check functions name the parameter, its value and the bound.

// CheckNames checks that a config sets exactly the declared parameters.
func CheckNames(c ep.Config, params []Param) error {
	for _, q := range params {
		if _, ok := c.Values[q.Name]; !ok {
			return fmt.Errorf("%s: not set; %s needs it (%s)", q.Name, c.Kernel, q.Doc)
		}
	}
	for _, name := range c.Names() {
		if !slices.ContainsFunc(params, func(q Param) bool { return q.Name == name }) {
			return fmt.Errorf("%s: %s has no such parameter", name, c.Kernel)
		}
	}
	return nil
}

// CheckRange checks that a parameter is a number from lo to hi.
func CheckRange(c ep.Config, name string, lo, hi int) error {
	if n, ok := c.Values[name].Int(); !ok || n < lo || n > hi {
		return fmt.Errorf("%s: %s is outside %d to %d", name, c.Values[name], lo, hi)
	}
	return nil
}

// CheckMultiple checks that a parameter is a multiple of unit, from lo to hi. The error describes the unit with the
// words `what`.
func CheckMultiple(c ep.Config, name string, unit, lo, hi int, what string) error {
	if err := CheckRange(c, name, lo, hi); err != nil {
		return err
	}
	if c.Int(name)%unit != 0 {
		return fmt.Errorf("%s: %s is not a multiple of %d, %s", name, c.Values[name], unit, what)
	}
	return nil
}

// CheckWord checks that a parameter has one of the known values.
func CheckWord(c ep.Config, name string, known ...string) error {
	if !slices.Contains(known, c.Str(name)) {
		return fmt.Errorf("%s: %q, use %s", name, c.Str(name), strings.Join(known, " or "))
	}
	return nil
}

// CheckConfig finds the kernel of a config in a backend's list and checks the config. Its
// error is a Failure with status illegal.
func CheckConfig(all []Kernel, m ep.Machine, p ep.Problem, c ep.Config) error {
	k, err := Find(all, p.Op, c.Kernel)
	if err == nil {
		err = k.Check(m, p, c)
	}
	if err != nil {
		return Failf(ep.Illegal, "%v", err)
	}
	return nil
}

// CheckRouting checks that a rank's routing fits the problem.
func CheckRouting(p ep.Problem, r workloads.Routing) error {
	n := r.Tokens * p.TopK
	switch {
	case r.Tokens < 0 || r.Tokens > p.MaxTokens:
		return fmt.Errorf("%d tokens, the buffers hold %d", r.Tokens, p.MaxTokens)
	case r.Tokens > p.Tokens:
		return fmt.Errorf("%d tokens, the problem says %d for the fullest rank", r.Tokens, p.Tokens)
	case len(r.Experts) != n || len(r.Weights) != n:
		return fmt.Errorf("%d experts and %d weights for %d selections", len(r.Experts), len(r.Weights), n)
	}
	for i, e := range r.Experts {
		t := i / p.TopK
		if e < -1 || int(e) >= p.Experts {
			return fmt.Errorf("token %d: expert %d is outside -1 to %d", t, e, p.Experts-1)
		}
		if e >= 0 && slices.Contains(r.Experts[t*p.TopK:i], e) {
			return fmt.Errorf("token %d: expert %d is selected twice", t, e)
		}
	}
	return nil
}

// LeastReading is the least time that a clock reports, in seconds. A clock may subtract the time of alignments
// (barriers between the ranks). If an alignment was disturbed, the difference can be negative. But ratios of rounds
// need positive times.
const LeastReading = 1e-9

const fewRounds = 3

// Disturbed reports whether at least half of the rounds have the time LeastReading. It needs at least fewRounds rounds.
func Disturbed(rounds []float64) bool {
	n := 0
	for _, t := range rounds {
		if t <= LeastReading {
			n++
		}
	}
	return len(rounds) >= fewRounds && 2*n >= len(rounds)
}

const (
	maxStages = 64
	maxNotes  = 100
	maxNote   = 4096 // bytes
)

// Implausible returns why r cannot be the result of spec, or "". If `idle`, times of 0 and below are
// legal.
func (r Rounds) Implausible(spec RunSpec, ranks int, idle bool) string {
	if len(r.Seconds) != spec.Rounds || r.Fold != max(spec.Fold, 1) {
		return fmt.Sprintf("%d rounds of fold %d instead of %d rounds of fold %d", len(r.Seconds), r.Fold, spec.Rounds, max(spec.Fold, 1))
	}
	if r.Clock == "" {
		return "the clock has no name"
	}
	for i, times := range r.Seconds {
		if len(times) != ranks {
			return fmt.Sprintf("round %d has times of %d ranks instead of %d", i, len(times), ranks)
		}
		for rank, t := range times {
			if math.IsNaN(t) || math.IsInf(t, 0) || t <= 0 && !idle {
				return fmt.Sprintf("round %d, rank %d took %v s", i, rank, t)
			}
		}
	}
	if len(r.MHz) > ranks || len(r.Stages) > maxStages || len(r.Notes) > maxNotes {
		return fmt.Sprintf("%d clock rates for %d ranks, %d stages and %d notes; a rank may have one rate, and there may be %d stages and %d notes", len(r.MHz), ranks, len(r.Stages), len(r.Notes), maxStages, maxNotes)
	}
	for _, n := range r.Notes {
		if len(n) > maxNote {
			return fmt.Sprintf("a note of %d bytes, more than %d", len(n), maxNote)
		}
	}
	for _, s := range r.Stages {
		if s.Name == "" || len(s.Name) > maxNote || !(s.Seconds >= 0) || math.IsInf(s.Seconds, 0) {
			return fmt.Sprintf("stage %q took %v s", s.Name, s.Seconds)
		}
	}
	if !idle && Disturbed(r.slowest()) {
		return fmt.Sprintf("at least half of %d rounds took no time: the calls are shorter than the clock's disturbances", spec.Rounds)
	}
	return ""
}

// MedianOfSlowest returns the median over rounds of the slowest rank's seconds.
func (r Rounds) MedianOfSlowest() float64 {
	slowest := r.slowest()
	slices.Sort(slowest)
	return slowest[len(slowest)/2]
}

func (r Rounds) slowest() []float64 {
	out := make([]float64, len(r.Seconds))
	for i, times := range r.Seconds {
		out[i] = slices.Max(times)
	}
	return out
}
