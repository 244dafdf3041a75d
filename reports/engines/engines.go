// Package engines writes what a run found for a library as the engines that use the
// library read it: SGLang's JSON, a shim for DeepEP, environment variables, flags, rows of
// a planner's table. An export is made of times measured with that library alone: the
// parameters of other kernels mean nothing to it.
package engines

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// Exporter writes the file of one engine.
type Exporter struct {
	Name  string // value of --format
	Ext   string // extension of the file
	Doc   string
	Write func(Input) (Output, error)
}

// Exporters lists every engine. A new one is one file and one line here.
var Exporters = []Exporter{
	{"sglang", ".json", "SGLang's --deepep-config: one DeepEP config for a mix of token counts", writeSGLang},
	{"deepep-shim", ".py", "a Python module that gives DeepEP its config by token count; vLLM loads it as a plugin", writeShim},
	{"flashinfer-env", ".sh", "block sizes of FlashInfer's one-sided all-to-all as environment variables", writeFlashInfer},
	{"megatron", ".txt", "Megatron-LM's flag for the SMs of DeepEP", writeMegatron},
	{"aiconfigurator", ".parquet", "rows of aiconfigurator's moe_a2a_perf table", writeAIConfigurator},
}

// Find returns the exporter called name; ok is false when there is none.
func Find(name string) (e Exporter, ok bool) {
	i := slices.IndexFunc(Exporters, func(e Exporter) bool { return e.Name == name })
	if i < 0 {
		return Exporter{}, false
	}
	return Exporters[i], true
}

// Input is a run, and how often each token count comes up in the engine.
type Input struct {
	Run *reports.Loaded
	Mix map[int]float64 // weight by token count; empty: all of the run, equally often
}

// Output is a file, and what to tell the user about it.
type Output struct {
	Data  []byte
	Notes []string
}

// spot is one token count and routing with the times of all configs of both halves.
type spot struct {
	tokens            int
	routing           string
	weight            float64
	dispatch, combine map[string]float64 // seconds by config key
}

func (s spot) String() string { return ep.Tokens(s.tokens) + ", " + s.routing }

// spots are the cases of a run in which a kernel ran both halves. The halves must be of
// one problem but for the token count: an engine's config has room for one.
func spots(in Input, kernel string) ([]spot, error) {
	var out []spot
	var problem ep.Problem
	for _, c := range in.Run.Cases {
		times := timesOf(c, kernel)
		if len(times) == 0 || c.Problem.Op == ep.Pair {
			continue
		}
		weight := 1.0
		if len(in.Mix) > 0 {
			weight = in.Mix[c.Problem.Tokens]
		}
		if weight == 0 {
			continue
		}
		p := c.Problem
		p.Op, p.Tokens, p.MaxTokens = "", 0, 0
		if problem == (ep.Problem{}) {
			problem = p
		}
		if p != problem {
			return nil, errors.New("the run has several shapes, dtypes or rank counts; sweep one for an export")
		}
		i := slices.IndexFunc(out, func(s spot) bool { return s.tokens == c.Problem.Tokens && s.routing == c.Routing })
		if i < 0 {
			i = len(out)
			out = append(out, spot{tokens: c.Problem.Tokens, routing: c.Routing, weight: weight})
		}
		if c.Problem.Op == ep.Dispatch {
			out[i].dispatch = times
		} else {
			out[i].combine = times
		}
	}
	return whole(out, in.Mix, kernel)
}

// whole are the spots with both halves, by token count. Each count of a mix must have one.
func whole(all []spot, mix map[int]float64, kernel string) ([]spot, error) {
	out := slices.DeleteFunc(all, func(s spot) bool { return len(s.dispatch) == 0 || len(s.combine) == 0 })
	slices.SortStableFunc(out, func(a, b spot) int { return cmp.Compare(a.tokens, b.tokens) })
	if len(out) == 0 && len(mix) == 0 {
		return nil, fmt.Errorf("the run has no dispatch and combine of kernel %s for the same tokens and routing; measure it with its worker: sweep --op dispatch,combine", kernel)
	}
	for _, n := range slices.Sorted(maps.Keys(mix)) {
		if !slices.ContainsFunc(out, func(s spot) bool { return s.tokens == n }) {
			return nil, fmt.Errorf("--mix: the run has no dispatch and combine of kernel %s with %s", kernel, ep.Tokens(n))
		}
	}
	return out, nil
}

// timesOf are the seconds of a kernel's configs in a case, drift removed.
func timesOf(c *reports.Case, kernel string) map[string]float64 {
	out := map[string]float64{}
	for _, e := range c.Entries {
		if e.OK() && e.Config.Kernel == kernel && !math.IsNaN(e.Level) {
			out[e.Key] = e.Level
		}
	}
	return out
}

// pick is one config for each half, and what it loses at each spot to the best pair
// there.
type pick struct {
	dispatch, combine ep.Config
	regret            []float64 // by spot, as a ratio minus one
}

// choose picks the pair with the least weighted mean regret over spots, of configs that
// fit each other and were measured at every spot. Among equals the first by key is taken.
func choose(all []spot, fits func(dispatch, combine ep.Config) bool) (pick, error) {
	d, c := everywhere(all, func(s spot) map[string]float64 { return s.dispatch }), everywhere(all, func(s spot) map[string]float64 { return s.combine })
	best, least := pick{}, math.Inf(1)
	bests := make([]float64, len(all))
	for i, s := range all {
		bests[i] = fastest(s, fits)
	}
	for _, x := range d {
		for _, y := range c {
			if !fits(x, y) {
				continue
			}
			sum, regret := 0.0, make([]float64, len(all))
			for i, s := range all {
				regret[i] = (s.dispatch[x.Key()]+s.combine[y.Key()])/bests[i] - 1
				sum += s.weight * regret[i]
			}
			if sum < least {
				best, least = pick{x, y, regret}, sum
			}
		}
	}
	if math.IsInf(least, 1) {
		return best, errors.New("no pair of configs was measured at every token count; sweep with --strategy grid, or with fewer --param values")
	}
	return best, nil
}

// fastest is the least time of a pair at a spot.
func fastest(s spot, fits func(dispatch, combine ep.Config) bool) float64 {
	least := math.Inf(1)
	for _, x := range everywhere([]spot{s}, func(s spot) map[string]float64 { return s.dispatch }) {
		for _, y := range everywhere([]spot{s}, func(s spot) map[string]float64 { return s.combine }) {
			if t := s.dispatch[x.Key()] + s.combine[y.Key()]; t < least && fits(x, y) {
				least = t
			}
		}
	}
	return least
}

// everywhere lists the configs of a half that every spot has, by key.
func everywhere(all []spot, half func(spot) map[string]float64) []ep.Config {
	var out []ep.Config
	for key := range half(all[0]) {
		if slices.ContainsFunc(all, func(s spot) bool { return half(s)[key] == 0 }) {
			continue
		}
		if c, err := ep.ParseConfig(key); err == nil {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b ep.Config) int { return strings.Compare(a.Key(), b.Key()) })
	return out
}

// losses says what a pick loses at each spot.
func (p pick) losses(all []spot) []string {
	var out []string
	for i, s := range all {
		out = append(out, fmt.Sprintf("%s: %.1f %% slower than the best config there", s, 100*p.regret[i]))
	}
	return out
}
