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
