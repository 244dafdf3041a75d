package curate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestDiffNamesStretches(t *testing.T) {
	changed, fresh := row(ep.Even, 32, 64, 512), row(ep.Skewed, 0, 8, 128)
	fresh.Evidence.Rounds = 60
	a := sealed(row(ep.Even, 0, 40, 128), row(ep.Skewed, 0, 8, 128), row(ep.HotRank, 5, 5, 64))
	b := sealed(changed, fresh, row(ep.HotRank, 5, 5, 64))
	var got []string
	for _, d := range Diff(a, b) {
		got = append(got, fmt.Sprintf("%s %d-%d %s", d.Key.Routing, d.Lo, d.Hi, d.Kind))
	}
	want := "even 0-31 removed, even 32-40 config, even 41-64 added, skewed 0-8 evidence"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestHeaderDiffOfMergedTables(t *testing.T) {
	a, b := sealed().Header, sealed().Header
	a.TrialLog, b.TrialLog = "a1 + a2 + a3 + a4 + c1 + c2", "b1 + c1 + c2"
	if got, want := fmt.Sprint(HeaderDiff(a, b)), "[trial_log: 2 in both, only a: a1 a2 a3 and 1 more; only b: b1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
