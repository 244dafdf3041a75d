package sweep

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestInterruptedSweepGoesOn: an interrupted sweep ends with the same rows, and measures nothing twice.
func TestInterruptedSweepGoesOn(t *testing.T) {
	o := options(t, "dispatch,combine,pair", []int{1, 16}, "uniform", "zipf:1.5")
	want := mustSweep(t, &scripted{}, o, t.TempDir())
	dir := t.TempDir()
	var soFar []int
	got := interrupted(t, func() *scripted { return &scripted{} }, o, dir, func(got *Summary) {
		soFar = append(soFar, finished(t, got, want))
	})
	if first, last := soFar[0], soFar[len(soFar)-1]; first != 0 || last == 0 || !slices.IsSorted(soFar) {
		t.Errorf("rows of the tables on the way: %d", soFar)
	}
	sameRows(t, got, want)
	noDuplicates(t, dir)
}

// interrupted interrupts a sweep in `dir` after more and more Run calls, until the sweep ends.
func interrupted(t *testing.T, backend func() *scripted, o *Options, dir string, stopped func(*Summary)) *Summary {
	t.Helper()
	for stop := 50; ; stop += 170 {
		ctx, cancel := context.WithCancel(context.Background())
		b := backend()
		b.OnRun = func(c call, _ []float64) error {
			if c.All == stop {
				cancel()
			}
			return nil
		}
		got, err := sweepInto(ctx, b, o, dir)
		cancel()
		switch {
		case errors.Is(err, context.Canceled):
			stopped(got)
		case err != nil:
			t.Fatal(err)
		default:
			return got
		}
	}
}

func sameRows(t *testing.T, got, want *Summary) {
	t.Helper()
	if !reflect.DeepEqual(rows(got.Table), rows(want.Table)) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(rows(got.Table), "\n"), strings.Join(rows(want.Table), "\n"))
	}
}

// finished counts the rows of an interrupted sweep. Their configs must equal those of the uninterrupted sweep.
func finished(t *testing.T, got, want *Summary) int {
	t.Helper()
	if got == nil || got.Table == nil {
		return 0
	}
	if got.Left == 0 && len(got.Run.Searches) < len(want.Run.Searches) {
		t.Errorf("%d of %d searches finished, and none left out", len(got.Run.Searches), len(want.Run.Searches))
	}
	for _, r := range got.Table.Rows {
		if a := want.Table.Lookup(r.Key, r.Lo); a.Config.Key() != r.Config.Key() {
			t.Errorf("%s at %d tokens: %s, but the whole sweep chose %s", r.Key, r.Lo, r.Config.Key(), a.Config.Key())
		}
	}
	return len(got.Table.Rows)
}

// TestInterruptedCrossing: without the crossing there is no row for all routings.
func TestInterruptedCrossing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := compromiseOptions(t)
	o.Progress = func(e Event) {
		if e.Done == 2 {
			cancel()
		}
	}
	out, err := sweepInto(ctx, compromised(), o, t.TempDir())
	if !errors.Is(err, context.Canceled) || out == nil || out.Left != 0 || len(out.Run.Regrets) > 0 || !out.Run.Finished.IsZero() {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(out.Table.Rows) != 2 || out.Table.Rows[0].Key.Routing != ep.Even || out.Table.Rows[1].Key.Routing != ep.Skewed {
		t.Errorf("%v", rows(out.Table))
	}
}

func TestInterruptedFinalsSpeakForAll(t *testing.T) {
	b := compromised()
	others := b.Truth
	b.Truth = func(p ep.Problem, routing string, c ep.Config) float64 {
		if c.Int("sms") == 62 && c.Str("threads") == "256" {
			return 50.5e-6
		}
		return others(p, routing, c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := compromiseOptions(t)
	o.Progress = func(e Event) {
		if e.Done == 2 {
			cancel()
		}
	}
	out, err := sweepInto(ctx, b, o, t.TempDir())
	if !errors.Is(err, context.Canceled) || len(out.Run.Regrets) > 0 || len(out.Table.Rows) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	r := out.Table.Rows[2]
	if r.Key.Routing != ep.AllRoutings || r.Config.Int("sms") != 62 || len(r.Evidence.Routings) != 2 || r.Evidence.Regret > 0.03 {
		t.Errorf("%+v", r)
	}
}
