package worker

import (
	"errors"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestToyPrintsAndMisses: ranks may print. If a rank's library is missing, the error names the rank.
func TestToyPrintsAndMisses(t *testing.T) {
	b, said := openToy(t, "testdata/drill.py", "print")
	s, c := toySession(t, b, ep.Dispatch)
	if _, err := s.Run(t.Context(), c.With("messages", "4"), kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil {
		t.Error(err)
	}
	b.Close()
	if text := said.with("a line on standard output"); !strings.Contains(text, "a line on standard output") {
		t.Errorf("shown: %q", text)
	}
	if _, _, err := tryToy(t, "testdata/drill.py", "missing"); err == nil || !strings.Contains(err.Error(), "rank 1 of 3") || !strings.Contains(err.Error(), "no_such_library") {
		t.Errorf("a missing library: %v", err)
	}
}

// TestFaulty runs a worker under faulty.py, which breaks rank 1.
func TestFaulty(t *testing.T) {
	for _, c := range []struct {
		fault  string
		status ep.Status
		reason string
	}{
		{"kill:messages=4", ep.Crash, "rank 1 of 3"},
		{"print:messages=4", "", "a line on standard output"},
		{"missing:mine", "", "No module named 'toy'"},
		{"missing:other", "", ""},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			b, said, err := tryToy(t, "../../native/python/workers/faulty.py mine "+toyFile, c.fault)
			if strings.Contains(c.reason, "No module") {
				if err == nil || !strings.Contains(err.Error(), "rank 1 of 3") || !strings.Contains(err.Error(), c.reason) {
					t.Fatalf("%v, want %s", err, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s, good := toySession(t, b, ep.Dispatch)
			if _, err := s.Verify(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			_, err = s.Verify(t.Context(), good.With("messages", "4"))
			var text string
			var f *kernels.Failure
			if errors.As(err, &f) {
				text = f.Reason
			} else {
				text = said.with(c.reason)
			}
			if (err != nil) != (c.status != "") || f != nil && f.Status != c.status || !strings.Contains(text, c.reason) {
				t.Errorf("%v, said %q, want %s with %q", err, said.text(), c.status, c.reason)
			}
		})
	}
}
