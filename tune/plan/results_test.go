package plan

import "testing"

// TestResultsAreAcceptedOneWay: who accepts any results gets the row made for
// that, or else the one for the same results as if it had been asked for; who
// does not never gets a row for any.
func TestResultsAreAcceptedOneWay(t *testing.T) {
	same, loose := testRow(Even, 0, 64, 128), testRow(Even, 8, 64, 512)
	loose.Key.Results = AnyResults
	tab := testTable(same, loose)
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		accepts Results
		tokens  int
		threads int
	}{{SameResults, 4, 128}, {SameResults, 8, 128}, {AnyResults, 4, 128}, {AnyResults, 8, 512}} {
		k := same.Key
		k.Results = c.accepts
		p := k.Problem(64)
		resolved := *tab.Resolve(testHost, p).Lookup(c.tokens, Even)
		for name, a := range map[string]Answer{"looked up": tab.Lookup(k, c.tokens), "resolved": resolved} {
			if a.Config.Int("threads") != c.threads || a.Reason != Exact || a.Differs != nil {
				t.Errorf("%s results at %d tokens, %s: %+v, want %d threads", c.accepts, c.tokens, name, a, c.threads)
			}
		}
	}
	only := testTable(loose)
	if err := only.Seal(); err != nil {
		t.Fatal(err)
	}
	if a := only.Lookup(same.Key, 8); a.Row != nil || a.Reason != Uncovered {
		t.Errorf("a row for any results answered: %+v", a)
	}
}

func TestParseResults(t *testing.T) {
	for text, want := range map[string]Results{"same": SameResults, "": SameResults, "any": AnyResults} {
		if got, err := ParseResults(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseResults("some"); err == nil {
		t.Error("some passed")
	}
}
