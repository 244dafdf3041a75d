package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// CheckNames checks that a config sets exactly the declared parameters.
func CheckNames(c ep.Config, params []Param) error {
	for _, q := range params {
		if _, ok := c.Values[q.Name]; !ok {
			return fmt.Errorf("%s: not set; %s needs it (%s)", q.Name, c.Kernel, q.Doc)
		}
	}
	if len(c.Values) == len(params) {
		return nil // no other name can be set, because names are distinct
	}
	for _, name := range c.Names() {
		if !slices.ContainsFunc(params, func(q Param) bool { return q.Name == name }) {
			return fmt.Errorf("%s: %s has no such parameter", name, c.Kernel)
		}
	}
	return nil
}

// CheckRange checks that a parameter is an integer from lo to hi.
func CheckRange(c ep.Config, name string, lo, hi int) error {
	if n, ok := c.Values[name].Int(); !ok || n < lo || n > hi {
		return fmt.Errorf("%s: %s is outside %d to %d", name, c.Values[name], lo, hi)
	}
	return nil
}

// CheckMultiple checks that a parameter is a multiple of `unit`, from lo to hi. `what` explains the unit in the error.
func CheckMultiple(c ep.Config, name string, unit, lo, hi int, what string) error {
	if err := CheckRange(c, name, lo, hi); err != nil {
		return err
	}
	if c.Int(name)%unit != 0 {
		return fmt.Errorf("%s: %s is not a multiple of %d, %s", name, c.Values[name], unit, what)
	}
	return nil
}

// CheckWord checks that the value of a parameter is one of the words `known`.
func CheckWord(c ep.Config, name string, known ...string) error {
	if !slices.Contains(known, c.Str(name)) {
		return fmt.Errorf("%s: %q, use %s", name, c.Str(name), strings.Join(known, " or "))
	}
	return nil
}

// CheckConfig finds a config's kernel in `all`, and checks that the config can run. Its error is a Failure with status
// illegal.
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

// CheckRouting checks the routing of one rank.
func CheckRouting(p ep.Problem, r workloads.Routing) error {
	n := r.Tokens * p.TopK
	switch {
	case r.Tokens < 0 || r.Tokens > p.MaxTokens:
		return fmt.Errorf("%d tokens, the buffers hold %d", r.Tokens, p.MaxTokens)
	case r.Tokens > p.Tokens:
		return fmt.Errorf("%d tokens, but the problem has at most %d in a rank", r.Tokens, p.Tokens)
	case len(r.Experts) != n || len(r.Weights) != n:
		return fmt.Errorf("%d experts and %d weights are given for %d selections", len(r.Experts), len(r.Weights), n)
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

// LeastReading is the least time that a backend may report, in seconds. A backend that subtracts the time of a barrier
// may compute zero or less, and then reports LeastReading, because epbench divides by times.
const LeastReading = 1e-9

const fewRounds = 3

// Disturbed reports whether at least half of the rounds have a time of LeastReading or less. It is false for fewer than
// fewRounds rounds.
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
	maxNote   = 4096 // bytes of one note
)

// Implausible returns why r cannot be the answer to the request `spec`, or "" if it can. If `idle` is true, times of 0
// or less are allowed.
func (r Rounds) Implausible(spec RunSpec, ranks int, idle bool) string {
	if len(r.Seconds) != spec.Rounds || r.Fold != max(spec.Fold, 1) {
		sized := func(rounds, calls int) string { return ep.Count(rounds, "round") + " of " + ep.Count(calls, "call") }
		return fmt.Sprintf("asked for %s, got %s", sized(spec.Rounds, max(spec.Fold, 1)), sized(len(r.Seconds), r.Fold))
	}
	if r.Clock == "" {
		return "the clock has no name"
	}
	for i, times := range r.Seconds {
		if len(times) != ranks {
			return fmt.Sprintf("round %d has the times of %d ranks, but there are %d ranks", i, len(times), ranks)
		}
		for rank, t := range times {
			if math.IsNaN(t) || math.IsInf(t, 0) || t <= 0 && !idle {
				return fmt.Sprintf("round %d, rank %d took %v s", i, rank, t)
			}
		}
	}
	if why := r.tooLong(ranks); why != "" {
		return why
	}
	for _, s := range r.Stages {
		if s.Name == "" || len(s.Name) > maxNote || !(s.Seconds >= 0) || math.IsInf(s.Seconds, 0) {
			return fmt.Sprintf("stage %q took %v s", s.Name, s.Seconds)
		}
	}
	if !idle && Disturbed(r.slowest()) {
		return fmt.Sprintf("at least half of the %d rounds have a time of 0 or less: the error of the clock is larger than the time of a call", spec.Rounds)
	}
	return ""
}

func (r Rounds) tooLong(ranks int) string {
	switch {
	case len(r.MHz) > ranks:
		return fmt.Sprintf("the answer has %d clock rates, but there are %d ranks", len(r.MHz), ranks)
	case len(r.Stages) > maxStages:
		return fmt.Sprintf("the answer has %d stages; at most %d are allowed", len(r.Stages), maxStages)
	case len(r.Notes) > maxNotes:
		return fmt.Sprintf("the answer has %d notes; at most %d are allowed", len(r.Notes), maxNotes)
	}
	for _, n := range r.Notes {
		if len(n) > maxNote {
			return fmt.Sprintf("a note has %d bytes; at most %d are allowed", len(n), maxNote)
		}
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
