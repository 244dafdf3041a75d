// Package engines writes a library's best configs in the file formats of engines such as SGLang.
package engines

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// Exporter writes the file of one engine.
type Exporter struct {
	Name  string // value of --format
	Ext   string
	Doc   string
	Write func(Input) (Output, error)
}

// Exporters lists every exporter.
var Exporters = []Exporter{
	{"sglang", ".json", "SGLang's --deepep-config: one DeepEP config for a mix of token counts", writeSGLang},
	{"deepep-shim", ".py", "a Python module that gives DeepEP its config by token count; vLLM loads it as a plugin", writeShim},
	{"flashinfer-env", ".sh", "block sizes of FlashInfer's one-sided all-to-all as environment variables", writeFlashInfer},
	{"megatron", ".txt", "Megatron-LM's flag for the SMs of DeepEP", writeMegatron},
	{"aiconfigurator", ".parquet", "rows of aiconfigurator's moe_a2a_perf table", writeAIConfigurator},
}

// Find returns the exporter with the given name. ok is false if no exporter has it.
func Find(name string) (e Exporter, ok bool) {
	i := slices.IndexFunc(Exporters, func(e Exporter) bool { return e.Name == name })
	if i < 0 {
		return Exporter{}, false
	}
	return Exporters[i], true
}

// Input holds a run and the engine's mix of token counts.
type Input struct {
	Run *reports.Loaded
	Mix map[int]float64 // share of calls by token count; empty: equal
}

// Output holds the content of the file and notes for the user.
type Output struct {
	Data  []byte
	Notes []string
}

type measuredPoint struct {
	tokens            int
	routing           string
	weight            float64
	dispatch, combine map[string]float64                 // seconds by config key
	own               struct{ dispatch, combine string } // keys of the defaults
}

func (s measuredPoint) String() string { return ep.Tokens(s.tokens) + ", " + s.routing }

// measuredPoints returns the points (token count and routing) at which a kernel's dispatch and combine were measured.
// Several shapes or dtypes are an error, because an engine has one config. leftOut lists the points that lack one op.
func measuredPoints(in Input, kernel string) (out []measuredPoint, leftOut []string, err error) {
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
			return nil, nil, errors.New("the run has several shapes, dtypes or rank counts; sweep one for an export")
		}
		i := slices.IndexFunc(out, func(s measuredPoint) bool { return s.tokens == c.Problem.Tokens && s.routing == c.Routing })
		if i < 0 {
			i = len(out)
			out = append(out, measuredPoint{tokens: c.Problem.Tokens, routing: c.Routing, weight: weight})
		}
		if c.Problem.Op == ep.Dispatch {
			out[i].dispatch, out[i].own.dispatch = times, defaultKeyOf(c)
		} else {
			out[i].combine, out[i].own.combine = times, defaultKeyOf(c)
		}
	}
	return withBothHalves(out, in.Mix, kernel)
}

// withBothHalves keeps the points that have both ops, sorted by token count. It returns an error if no point remains,
// or if a token count of the mix has no point.
func withBothHalves(all []measuredPoint, mix map[int]float64, kernel string) (out []measuredPoint, leftOut []string, err error) {
	for _, s := range all {
		switch {
		case len(s.dispatch) == 0:
			leftOut = append(leftOut, fmt.Sprintf("warning: %s: left out, because no dispatch was measured", s))
		case len(s.combine) == 0:
			leftOut = append(leftOut, fmt.Sprintf("warning: %s: left out, because no combine was measured", s))
		default:
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b measuredPoint) int { return cmp.Compare(a.tokens, b.tokens) })
	if len(out) == 0 && len(mix) == 0 {
		return nil, nil, fmt.Errorf("the run has no dispatch and combine of kernel %s for the same tokens and routing. For the command of a sweep with the library's worker, run epbench start; for its steps, read epbench docs run-deepep or epbench docs run-flashinfer", kernel)
	}
	for _, n := range slices.Sorted(maps.Keys(mix)) {
		if !slices.ContainsFunc(out, func(s measuredPoint) bool { return s.tokens == n }) {
			return nil, nil, fmt.Errorf("--mix: the run has no dispatch and combine of kernel %s with %s", kernel, ep.Tokens(n))
		}
	}
	return out, leftOut, nil
}

func defaultKeyOf(c *reports.Case) string {
	if e := c.Default(); e != nil {
		return e.Key
	}
	return ""
}

// timesOf returns seconds by config key. If the search kept the default, no config is really faster, so timesOf returns
// at least the default's time.
func timesOf(c *reports.Case, kernel string) map[string]float64 {
	least := 0.0
	if e := c.Default(); e != nil && c.Search != nil && c.Search.Decision.KeepsDefault() && !math.IsNaN(e.Level) {
		least = e.Level
	}
	out := map[string]float64{}
	for _, e := range c.Entries {
		if e.Timed() && e.Config.Kernel == kernel && !math.IsNaN(e.Level) {
			out[e.Key] = max(e.Level, least)
		}
	}
	return out
}
