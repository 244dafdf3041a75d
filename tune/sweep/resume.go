package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// Continues reports why a run cannot go on here: another machine, other
// kernels, another space or policy would mix numbers that do not compare.
func Continues(run *record.Run, b kernels.Backend, p *Plan) error {
	m := b.Machine()
	for _, f := range []struct{ what, was, is, way string }{
		{"machine", run.Machine.Key(), m.Key(), "resume it there"},
		{"kernels (ABI)", run.ABI, ABI(b), "resume it with the epbench that started it"},
		{"search space", run.Space, p.Fingerprint, "resume it with the epbench that started it"},
		{"measurement policy", run.Policy, p.Policy.String(), "resume it with the epbench that started it"},
	} {
		if f.was != f.is {
			return fmt.Errorf("the run has another %s: %s there, %s here; %s, or start a new run", f.what, f.was, f.is, f.way)
		}
	}
	return nil
}

// Retry records which quarantined configs get another chance.
func Retry(run *record.Run, results []record.Result, keys []string) error {
	failed := measure.Quarantined(results)
	for _, key := range keys {
		c, err := ep.ParseConfig(key)
		if err != nil {
			return err
		}
		if _, ok := failed[c.Key()]; !ok {
			return fmt.Errorf("%s is not quarantined in this run%s", c.Key(), quarantineHint(failed))
		}
		if !slices.Contains(run.Retried, c.Key()) {
			run.Retried = append(run.Retried, c.Key())
		}
	}
	return nil
}

// quarantineHint lists what is quarantined, a few at most.
func quarantineHint(failed map[string]string) string {
	if len(failed) == 0 {
		return "; nothing is"
	}
	var keys []string
	for k := range failed {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return "; it has " + strings.Join(keys[:min(3, len(keys))], " and ")
}
