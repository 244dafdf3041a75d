package sweep

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestCombineIsSearchedOnce(t *testing.T) {
	o := options(t, "combine", []int{16}, "uniform")
	o.Problems[0].Hidden = 128
	second := o.Problems[0]
	second.Dispatch = ep.FP8
	o.Problems = append(o.Problems, second)
	out := mustSweep(t, &scripted{Sigma: 0.005}, o, t.TempDir())
	if len(out.Run.Searches) != 2 {
		t.Fatalf("%d searches, want 2", len(out.Run.Searches))
	}
	first, again := out.Run.Searches[0], out.Run.Searches[1]
	if first.SiblingDType != "" || again.SiblingDType != first.Problem.Dispatch || again.Tried >= first.Tried || again.Decision.Rounds == 0 {
		t.Errorf("the first search tried %d configs, the second %d, with the sibling's dtype %q", first.Tried, again.Tried, again.SiblingDType)
	}
	if again.Decision.Config.Key() != first.Decision.Config.Key() {
		t.Errorf("the first search chose %s, the second %s", first.Decision.Config.Key(), again.Decision.Config.Key())
	}
	for _, r := range out.Table.Rows {
		if r.Evidence.Tried != first.Tried || !r.Evidence.Complete {
			t.Errorf("the row of %s says %d of %d tried", r.Key.Dispatch, r.Evidence.Tried, r.Evidence.Legal)
		}
	}
}
