package sweep

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// TestNoTable: there is no table if no search decided, or if more than a quarter were too noisy.
func TestNoTable(t *testing.T) {
	quiet, noisy := record.Band{Policy: 0.01, AA: 0.005}, record.Band{Policy: 0.01, AA: 0.02}
	failed := record.Decision{Cause: record.Failed, Band: quiet}
	for _, c := range []struct {
		name   string
		all    []record.Decision
		why    string
		spread float64
	}{
		{"quiet", []record.Decision{{Band: quiet}}, "", 0.005},
		{"one of four decided, on a noisy machine", []record.Decision{{Band: noisy}, failed, failed, failed}, "", 0.02},
		{"one of four too noisy", []record.Decision{{Band: noisy, Cause: record.Noisy}, failed, failed, failed},
			"a needed config failed (3), too noisy to decide (1); see", 0},
		{"two of four noisy", []record.Decision{{Band: noisy}, {Band: noisy}, {Band: quiet}, {Band: quiet}}, "in 2 of 4 searches", 0.02},
		{"one has no default", []record.Decision{{Cause: record.NoDefault, Band: quiet}, failed}, "the default does not run (1), a needed config failed (1)", 0},
		{"no default runs", []record.Decision{{Cause: record.NoDefault, Band: quiet}}, "no default runs here", 0},
	} {
		s := &sweeper{harness: &harness{policy: measure.Policy{Protocol: search.Protocol{Band: 0.01}}}}
		for _, d := range c.all {
			of := &activeSearch{}
			of.result.Decision, of.aa.Spread = d, d.Band.AA
			s.searches = append(s.searches, of)
		}
		why, spread := s.whyNoTable()
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) || spread != c.spread {
			t.Errorf("%s: %q and a spread of %v, want %q and %v", c.name, why, spread, c.why, c.spread)
		}
	}
}
