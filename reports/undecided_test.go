package reports_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

func column(t *testing.T, table reports.Table, name string) (out []reports.Cell) {
	t.Helper()
	at := slices.IndexFunc(table.Columns, func(c reports.Column) bool { return c.Name == name })
	if at < 0 {
		t.Fatalf("%s has no column %s", table.Name, name)
	}
	for _, r := range table.Rows {
		out = append(out, r[at])
	}
	return out
}

func TestUndecidedShowsTheChallenger(t *testing.T) {
	l := small().load("a")
	table := reports.Winners(l.Run)
	shown := column(t, table, "challenger")
	some := 0
	for i, s := range l.Run.Searches {
		if s.Decision.Verdict != record.Undecided {
			if shown[i].Text != "" {
				t.Errorf("row %d is %s and shows %q", i+1, s.Decision.Verdict, shown[i].Text)
			}
			continue
		}
		some++
		if !strings.Contains(shown[i].Text, s.Decision.Challenger.ID()) || !strings.Contains(shown[i].Text, reports.Gain(s.Decision.ChallengerGain.Low).Text) {
			t.Errorf("row %d shows %q, want the challenger with gain %+v", i+1, shown[i].Text, s.Decision.ChallengerGain)
		}
	}
	if some == 0 {
		t.Fatal("the run has no undecided case")
	}
}

func TestNoisyIsUndecided(t *testing.T) {
	l := small().load("a")
	l.Run.Searches[0].Decision.Cause, l.Run.Searches[0].Decision.Verdict = record.Noisy, record.Undecided
	table := reports.Winners(l.Run)
	if got := column(t, table, "verdict")[0].Text; got != "undecided" {
		t.Errorf("verdict %q", got)
	}
	if notes := strings.Join(table.Notes, "\n"); !strings.Contains(notes, "undecided: in 1 case two measurements of the default differ by more than the band") {
		t.Error(notes)
	}
}

// TestOneSpeed: column `busiest` of the winners equals column `speed` of the wire limit.
func TestOneSpeed(t *testing.T) {
	l := small().load("a")
	busiest, speed := column(t, reports.Winners(l.Run), "busiest"), column(t, reports.WireTable(l, 450), "speed")
	if len(busiest) != len(speed) {
		t.Fatalf("the table of winners has %d rows, the table of the wire limit %d", len(busiest), len(speed))
	}
	for i := range busiest {
		if busiest[i].Value != speed[i].Value {
			t.Errorf("row %d: busiest %v, speed %v", i+1, busiest[i].Value, speed[i].Value)
		}
	}
}
