package chart

import (
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/epbench/epbench/tune/record"
)

func TestSamplesKeepTheirStyle(t *testing.T) {
	orders := map[string]bool{}
	for name, l := range recorded(t) {
		for _, c := range l.Cases {
			var fastest, last = "", -1
			for _, e := range c.Entries {
				if (e.Role == record.Default || e.Role == record.Twin) && e.OK() {
					fastest += string(e.Role) + " "
				}
			}
			orders[fastest] = true
			for _, e := range shownEntries(c) {
				st := sampleStyle(e)
				if want := map[record.Role]int{record.Default: 1, record.Twin: 2}[e.Role]; st != want || st <= last {
					t.Errorf("%s, %s: %s has style %d, want %d; the entry before has style %d, want a smaller one", name, c.Title(), e.Role, st, want, last)
				}
				last = st
			}
		}
	}
	if !orders["default twin "] || !orders["twin default "] {
		t.Errorf("the test needs runs in which the twin is faster and runs in which it is slower: %v", orders)
	}
}

func TestTitlesAreWhole(t *testing.T) {
	const title = "Time of one call of pair bf16 (expert gated +counts +expansion +reduction): hidden 7168, 256 experts, top-8, 2 ranks"
	st := textStyle(titleSize, ink)
	width := 6 * vg.Inch
	lines := broken(title, st, width)
	if len(lines) < 2 || strings.Join(lines, " ") != title {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if st.Width(line) > width {
			t.Errorf("%q is too wide", line)
		}
	}
	if got := broken("short", st, width); len(got) != 1 || got[0] != "short" {
		t.Errorf("%q", got)
	}
}
