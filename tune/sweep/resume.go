package sweep

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Continues returns an error if a run's machine, kernels, search space or policy differ from the plan's.
func Continues(run *record.Run, b kernels.Backend, p *Plan) error {
	m := b.Machine()
	was, is := run.ABI.Short(), ABI(b).Short()
	if run.ABI != "" && len(run.ABI.Changed(ABI(b))) == 0 {
		was = is // the same kernels, and perhaps new ones
	}
	for _, f := range []struct{ what, was, is, way string }{
		{"machine", run.Machine.Key(), m.Key(), "resume it there"},
		{"kernels (ABI)", was, is, "resume it with the epbench that started it"},
		{"search space", run.Space, p.Fingerprint, "resume it with the epbench that started it"},
		{"measurement policy", run.Policy, p.Policy.String(), "resume it with the epbench that started it"},
	} {
		if f.was != f.is {
			return fmt.Errorf("the run has another %s: %s there, %s here; %s, or start a new run", f.what, f.was, f.is, f.way)
		}
	}
	return sameTraces(run, p)
}

// sameTraces returns an error if a trace file changed.
func sameTraces(run *record.Run, p *Plan) error {
	for _, d := range p.Options.Distributions {
		spec := d.Spec()
		if ep.RoutingDigest(spec) == "" || slices.ContainsFunc(run.Routings, func(r string) bool { return ep.RoutingContent(r) == ep.RoutingContent(spec) }) {
			continue
		}
		was := "unknown (an epbench from before v0.1.0 began the run)"
		for _, r := range run.Routings {
			if ep.RoutingLabel(r) == ep.RoutingLabel(spec) {
				was = ep.RoutingDigest(r)
			}
		}
		return fmt.Errorf("the run has another routing in %s: digest %s there, %s here; restore the file, or start a new run", ep.RoutingLabel(spec), was, ep.RoutingDigest(spec))
	}
	return nil
}

// Retry records which failed configs the run must measure again. A spec is a config in full, its id, or its difference
// from a default.
func Retry(run *record.Run, results []record.Result, specs []string) error {
	failed := spellings(results)
	keys := slices.Sorted(maps.Keys(failed))
	for _, spec := range specs {
		names := strings.FieldsFunc(spec, func(r rune) bool { return r == ' ' || r == ',' })
		slices.Sort(names)
		var found []string
		for _, key := range keys {
			c, err := ep.ParseConfig(key)
			if err == nil && (key == spec || c.HasID(spec) || slices.Contains(failed[key], strings.Join(names, " "))) {
				found = append(found, key)
			}
		}
		switch {
		case len(keys) == 0:
			return fmt.Errorf("%s did not fail in this run, and no other config failed", spec)
		case len(found) == 0:
			return fmt.Errorf("%s did not fail in this run; failed were %s", spec, strings.Join(keys[:min(3, len(keys))], " and "))
		case len(found) > 1:
			return fmt.Errorf("%s names %d failed configs; spell one in full: %s", spec, len(found), strings.Join(found, " or "))
		case !slices.Contains(run.Retried, found[0]):
			run.Retried = append(run.Retried, found[0])
		}
	}
	return nil
}

// spellings maps the key of each failed config to its differences from defaults.
func spellings(results []record.Result) map[string][]string {
	defaults := map[ep.Problem]ep.Config{}
	for _, r := range results {
		if r.Role == record.Default {
			defaults[r.Problem] = r.Config
		}
	}
	out := map[string][]string{}
	for _, r := range results {
		key := r.Config.Key()
		if difference := r.Config.Difference(defaults[r.Problem]); r.Status != ep.OK && !slices.Contains(out[key], difference) {
			out[key] = append(out[key], difference)
		}
	}
	return out
}
