package table

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestReducedPrecisionIsAcceptedOneWay: both rows are exact for a caller that accepts reduced precision.
func TestReducedPrecisionIsAcceptedOneWay(t *testing.T) {
	same, loose := testRow(ep.Even, 0, 64, 128), testRow(ep.Even, 8, 64, 512)
	loose.Key.Precision = ep.Reduced
	tab := testTable(same, loose)
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		accepts ep.Precision
		tokens  int
		threads int
	}{{ep.Full, 4, 128}, {ep.Full, 8, 128}, {ep.Reduced, 4, 128}, {ep.Reduced, 8, 512}} {
		k := same.Key
		k.Precision = c.accepts
		p := k.Problem(64)
		resolved := *tab.Resolve(testHost, p).Lookup(c.tokens, ep.Even)
		for name, a := range map[string]Answer{"looked up": tab.Lookup(k, c.tokens), "resolved": resolved} {
			if a.Config.Int("threads") != c.threads || a.Reason != Exact || a.Differs != nil {
				t.Errorf("%s precision at %d tokens, %s: %+v, want %d threads", c.accepts, c.tokens, name, a, c.threads)
			}
		}
	}
	only := testTable(loose)
	if err := only.Seal(); err != nil {
		t.Fatal(err)
	}
	if a := only.Lookup(same.Key, 8); a.Row != nil || a.Reason != Uncovered {
		t.Errorf("a row of reduced precision answered: %+v", a)
	}
}
