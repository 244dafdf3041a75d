package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// TestRefusedSessions: if the backend refuses to open a workload, the search of this workload fails. Two refused
// workloads in a row end the sweep.
func TestRefusedSessions(t *testing.T) {
	refusal := errors.New("ranks: GPU 0 cannot address GPU 1")
	for name, c := range map[string]struct {
		tokens  []int
		refused int
		goesOn  bool
	}{
		"the only workload":      {[]int{8}, 2, false},
		"the first workload":     {[]int{8, 16, 32}, 2, true},
		"two workloads in a row": {[]int{8, 16, 32}, 4, false},
		"only the first request": {[]int{8}, 1, true},
		"every request":          {[]int{8, 16, 32}, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &scripted{Sigma: 0.01, OnOpen: func(opened int) error {
				if opened <= c.refused {
					return refusal
				}
				return nil
			}}
			out, err := sweepInto(context.Background(), b, options(t, "dispatch", c.tokens, "uniform"), t.TempDir())
			if !c.goesOn {
				if !errors.Is(err, refusal) || errors.Is(err, measure.ErrLost) {
					t.Errorf("the sweep ended with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			first := out.Run.Searches[0].Decision
			if failed := first.Cause == record.NoDefault; failed != (len(c.tokens) > 1) || failed && !strings.Contains(first.Reason, refusal.Error()) {
				t.Errorf("the first search: %s, %s", first.Cause, first.Reason)
			}
			if len(out.Run.Searches) != len(c.tokens) {
				t.Errorf("%d searches", len(out.Run.Searches))
			}
		})
	}
}
