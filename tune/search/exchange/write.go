package exchange

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// invalidities maps statuses of failed configs to the words that results-schema.json allows.
var invalidities = map[ep.Status]string{
	ep.Illegal: "constraints", ep.CompileFailed: "compile", ep.LaunchFailed: "runtime", ep.Crash: "runtime",
	ep.Mismatch: "correctness", ep.Hang: "timeout", ep.Unstable: "runtime",
}

// Invalidity returns the word for a status in a T4 file (JSON results of a tuner), or "" for ep.OK.
func Invalidity(s ep.Status) string { return invalidities[s] }

func (s *Space) names() (names []string, valuesOf map[string][]ep.Value) {
	valuesOf = map[string][]ep.Value{}
	for _, p := range s.Points {
		for name, v := range p.Config.Values {
			if !slices.Contains(valuesOf[name], v) {
				valuesOf[name] = append(valuesOf[name], v)
			}
		}
	}
	for _, all := range valuesOf {
		slices.SortFunc(all, ep.Value.Compare)
	}
	return slices.Sorted(maps.Keys(valuesOf)), valuesOf
}

func milliseconds(seconds ...float64) []float64 {
	out := make([]float64, len(seconds))
	for i, s := range seconds {
		out[i] = 1e3 * s
	}
	return out
}

// WriteT4 writes a space as a T4 file of schema 1, in milliseconds.
func (s *Space) WriteT4(w io.Writer) error {
	type measurement struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
		Unit  string  `json:"unit"`
	}
	type result struct {
		Configuration map[string]ep.Value `json:"configuration"`
		Times         map[string]any      `json:"times"`
		Invalidity    string              `json:"invalidity"`
		Correctness   int                 `json:"correctness"`
		Measurements  []measurement       `json:"measurements"`
		Objectives    []string            `json:"objectives"`
	}
	var results []result
	for i := range s.Points {
		p := &s.Points[i]
		r := result{p.Config.Values, map[string]any{"compilation": 1e3 * p.Prepare, "framework": 0, "search_algorithm": 0, "validation": 0, "runtimes": milliseconds(p.Runs...)},
			"correct", 1, []measurement{}, []string{"time"}}
		if p.Failure != "" {
			r.Invalidity, r.Correctness = p.Failure, 0
		} else {
			r.Measurements = []measurement{{"time", 1e3 * p.Time, "milliseconds"}}
		}
		results = append(results, r)
	}
	return json.NewEncoder(w).Encode(map[string]any{"schema_version": "1.0.0", "metadata": map[string]string{"timeunit": "milliseconds"}, "results": results})
}

// WriteT1 writes the description of a space as T1, without constraints: https://github.com/odgaard/TuningSchema
// (TuningSchema.json).
func (s *Space) WriteT1(w io.Writer, kernel string) error {
	type parameter struct {
		Name, Type, Values string
	}
	names, valuesOf := s.names()
	var parameters []parameter
	for _, name := range names {
		all := valuesOf[name]
		kind := "int"
		if _, ok := all[len(all)-1].Int(); !ok { // words come last
			kind = "string"
		}
		list, err := json.Marshal(all)
		if err != nil {
			return err
		}
		parameters = append(parameters, parameter{name, kind, string(list)})
	}
	return json.NewEncoder(w).Encode(map[string]any{
		"General":            map[string]any{"FormatVersion": 1, "TimeUnit": "Milliseconds", "OutputFormat": "JSON"},
		"ConfigurationSpace": map[string]any{"TuningParameters": parameters, "Conditions": []any{}},
		"KernelSpecification": map[string]any{"Language": "CUDA", "KernelName": kernel, "KernelFile": "launched by epbench",
			"GlobalSize": map[string]string{"X": "1"}, "LocalSize": map[string]string{"X": "1"}},
	})
}

var failures = map[string]string{"compile": "CompilationFailedConfig", "constraints": outsideSpace}

// WriteCache writes a space as a cache file of Kernel Tuner. Combinations that were not measured get the time
// outsideSpace.
func (s *Space) WriteCache(w io.Writer, device, kernel string) error {
	names, valuesOf := s.names()
	product := 1
	for _, name := range names {
		if product *= len(valuesOf[name]); product > mostCached {
			return fmt.Errorf("the parameters have more than %d combinations of values, and a cache file lists all of them; write T4", mostCached)
		}
	}
	measured := map[string]*Point{}
	for i := range s.Points {
		measured[cacheKey(names, s.Points[i].Config.Values)] = &s.Points[i]
	}
	cache := map[string]map[string]any{}
	for k := range product {
		config := map[string]ep.Value{}
		for _, name := range slices.Backward(names) {
			all := valuesOf[name]
			config[name], k = all[k%len(all)], k/len(all)
		}
		key := cacheKey(names, config)
		cache[key] = cacheEntry(config, measured[key])
	}
	return json.NewEncoder(w).Encode(wholeCache{device, kernel, 1, names, valuesOf, "time", cache})
}

// wholeCache has the members of a cache file in their required order.
type wholeCache struct {
	Device     string                    `json:"device_name"`
	Kernel     string                    `json:"kernel_name"`
	Size       int                       `json:"problem_size"`
	Names      []string                  `json:"tune_params_keys"`
	Parameters map[string][]ep.Value     `json:"tune_params"`
	Objective  string                    `json:"objective"`
	Cache      map[string]map[string]any `json:"cache"`
}

const mostCached = 1_000_000

func cacheKey(names []string, config map[string]ep.Value) string {
	var parts []string
	for _, name := range names {
		parts = append(parts, string(config[name]))
	}
	return strings.Join(parts, ",")
}

func cacheEntry(config map[string]ep.Value, p *Point) map[string]any {
	out := map[string]any{"compile_time": 0.0, "verification_time": 0, "benchmark_time": 0.0, "strategy_time": 0, "framework_time": 0}
	for name, v := range config {
		out[name] = v
	}
	if p == nil {
		out["time"] = outsideSpace
		return out
	}
	out["compile_time"] = 1e3 * p.Prepare
	if p.Failure != "" || math.IsNaN(p.Time) {
		out["time"] = "RuntimeFailedConfig"
		if text, ok := failures[p.Failure]; ok {
			out["time"] = text
		}
		return out
	}
	total := 0.0
	for _, t := range p.Runs {
		total += 1e3 * t
	}
	out["time"], out["times"], out["benchmark_time"] = 1e3*p.Time, milliseconds(p.Runs...), total
	return out
}
