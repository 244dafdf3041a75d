package reports_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

const noise = 0.02

// pair simulates two runs of forty cases. Each run has one session. `slow` returns the factor on a time of the second
// run.
func pair(seed uint64, rounds int, slow func(ep.Problem, string) float64) (a, b *reports.Loaded) {
	one, two := forty(2*seed, rounds, noise), forty(2*seed+1, rounds, noise)
	two.Slow = slow
	return one.load("a"), two.load("b")
}

func pairOfSessions(seed uint64, slow func(ep.Problem, string) float64) (a, b *reports.Loaded) {
	one, two := forty(2*seed, 20, noise).inSessions(), forty(2*seed+1, 20, noise).inSessions()
	two.Slow = slow
	return one.load("a"), two.load("b")
}

func compare(t *testing.T, a, b *reports.Loaded) *reports.Comparison {
	t.Helper()
	return compareWith(t, a, b, reports.CompareOptions{})
}

var oneSession = reports.CompareOptions{Allow: map[string]bool{"sessions": true}}

func compareWith(t *testing.T, a, b *reports.Loaded, o reports.CompareOptions) *reports.Comparison {
	t.Helper()
	c, err := reports.Compare(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// gatedPairs lists the simulated runs for which the gate (Comparison.Gate) is tested.
var gatedPairs = map[string]struct {
	pairs   int
	draw    func(uint64, func(ep.Problem, string) float64) (a, b *reports.Loaded)
	options reports.CompareOptions
}{
	"twelve sessions of 20 rounds": {100, pairOfSessions, reports.CompareOptions{}},
	"one session of 30 rounds": {200, func(seed uint64, slow func(ep.Problem, string) float64) (a, b *reports.Loaded) {
		return pair(seed, 30, slow)
	}, oneSession},
}

// TestGateOnIdenticalPrograms: the gate fails for at most 1 % of the pairs, and is undecided for at most 5 %.
func TestGateOnIdenticalPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation on one goroutine has no data races")
	}
	for name, gated := range gatedPairs {
		pairs := gated.pairs
		failed, unsure, called := 0, 0, 0
		for seed := range uint64(pairs) {
			a, b := gated.draw(seed, nil)
			c := compareWith(t, a, b, gated.options)
			g := c.Gate(0.03)
			if len(g.Regressed) > 0 {
				failed++
			}
			if len(g.Unsure) > 0 {
				unsure++
			}
			for _, x := range c.Cases {
				if x.Verdict == record.Slower || x.Verdict == record.Faster {
					called++
				}
			}
		}
		t.Logf("%s: of %d pairs: %d failed, %d undecided; %d of %d cases slower or faster", name, pairs, failed, unsure, called, pairs*40)
		if failed > pairs/100 || unsure > pairs/20 || called > pairs*40/1000 {
			t.Errorf("%s: %d pairs failed (allowed %d), %d undecided (allowed %d), %d cases slower or faster (allowed %d)", name, failed, pairs/100, unsure, pairs/20, called, pairs*40/1000)
		}
	}
}

// TestGateCatchesAPlantedSlowdown: if one case is 5 % slower, the gate finds it in at least 95 % of the pairs.
func TestGateCatchesAPlantedSlowdown(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation on one goroutine has no data races")
	}
	planted := func(p ep.Problem, routing string) bool {
		return p.Op == ep.Combine && p.Tokens == 32 && routing == "zipf:1.0"
	}
	for name, gated := range gatedPairs {
		pairs := gated.pairs
		caught, others := 0, 0
		for seed := range uint64(pairs) {
			a, b := gated.draw(1000+seed, func(p ep.Problem, routing string) float64 {
				if planted(p, routing) {
					return 1.05
				}
				return 1
			})
			c := compareWith(t, a, b, gated.options)
			for _, i := range c.Gate(0.03).Regressed {
				if planted(c.Cases[i].Case.Problem, c.Cases[i].Case.Routing) {
					caught++
				} else {
					others++
				}
			}
		}
		t.Logf("%s: caught the slower case in %d of %d pairs, accused %d other cases", name, caught, pairs, others)
		if caught < pairs*95/100 || others > pairs/100 {
			t.Errorf("%s: caught the slower case in %d of %d pairs, want 95 %%; accused %d other cases", name, caught, pairs, others)
		}
	}
}

// TestUndecidedSaysWhatItShows: with the number of sessions that the summary names, nearly all cases are decided.
func TestUndecidedSaysWhatItShows(t *testing.T) {
	a, b := pairOfSessions(3, nil)
	c := compare(t, a, b)
	found := regexp.MustCompile(`in each undecided case, a and b differ by at most ([0-9.]+)%; in half of these cases, by at most ([0-9.]+)%.* about ([0-9]+) sessions`).FindStringSubmatch(strings.ToLower(c.Summary()))
	if found == nil {
		t.Fatal(c.Summary())
	}
	number := func(s string) float64 { x, _ := strconv.ParseFloat(s, 64); return x }
	for _, x := range c.Cases {
		if x.Verdict != record.Undecided {
			continue
		}
		if most := 1 + number(found[1])/100 + 0.0005; x.Ratio.High > most || x.Ratio.Low < 1/most {
			t.Errorf("%s can differ by more than %s %%: its ratio is in %.4f to %.4f", x.Case.Title(), found[1], x.Ratio.Low, x.Ratio.High)
		}
	}
	one, two := forty(11, 20, noise).inSessions(), forty(12, 20, noise).inSessions()
	one.Sessions, two.Sessions = int(number(found[3])), int(number(found[3]))
	same := 0
	for _, x := range compare(t, one.load("a"), two.load("b")).Cases {
		if x.Verdict == record.Same {
			same++
		}
	}
	if same < 34 {
		t.Errorf("with %s sessions %d of 40 cases have the verdict same, want 34", found[3], same)
	}
}

func TestFewRoundsAreUndecided(t *testing.T) {
	a, b := pair(1, reports.MinRounds-1, func(ep.Problem, string) float64 { return 1.5 })
	c := compare(t, a, b)
	for _, x := range c.Cases {
		if x.Verdict != record.Undecided || !strings.Contains(x.Reason, "9 rounds") {
			t.Fatalf("%s: %s, %s", x.Case.Title(), x.Verdict, x.Reason)
		}
	}
	if g := c.Gate(0.03); len(g.Regressed) != 0 || len(g.Unsure) != len(c.Cases) {
		t.Errorf("of %d cases %d regressed and %d are unsure, want 0 and all", len(c.Cases), len(g.Regressed), len(g.Unsure))
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		factor float64
		noise  float64
		want   record.Verdict
	}{
		{"same", 1, 0.002, record.Same},
		{"slower", 1.1, 0.01, record.Slower},
		{"faster", 0.9, 0.01, record.Faster},
		{"within the band", 1.005, 0.001, record.Same},
		{"too noisy to tell", 1.02, 0.2, record.Undecided},
	} {
		one, two := forty(1, 20, c.noise).inSessions(), forty(2, 20, c.noise).inSessions()
		one.Between, two.Between = c.noise/2, c.noise/2
		two.Slow = func(ep.Problem, string) float64 { return c.factor }
		a, b := one.load("a"), two.load("b")
		a.Run.AA, b.Run.AA = nil, nil
		got := compare(t, reload(a), reload(b))
		for _, x := range got.Cases {
			if x.Verdict != c.want {
				t.Errorf("%s: %s (%.4f, %.4f to %.4f), want %s: %s", c.name, x.Verdict, x.Ratio.Mid, x.Ratio.Low, x.Ratio.High, c.want, x.Reason)
				break
			}
		}
	}
}

// reload sorts changed results into cases again.
func reload(l *reports.Loaded) *reports.Loaded {
	l.Cases = reports.Cases(l.Run, l.Results)
	return l
}

// TestNeverFinerThanAA: a case is undecided if the runs differ by less than the default differs from itself.
func TestNeverFinerThanAA(t *testing.T) {
	one, two := forty(1, 20, 0.002).inSessions(), forty(2, 20, 0.002).inSessions()
	one.Between, two.Between = 0.001, 0.001
	two.Slow = func(ep.Problem, string) float64 { return 1.04 }
	a, b := one.load("a"), two.load("b")
	for i := range b.Run.AA {
		b.Run.AA[i].Spread = 0.06
	}
	for _, x := range compare(t, reload(a), reload(b)).Cases {
		if x.Verdict != record.Undecided || !strings.Contains(x.Reason, "noisy: the band is 6.0 % (A/A spread") || x.Band != 0.06 {
			t.Fatalf("%s with a band of %v", x.Verdict, x.Band)
		}
	}
}

// TestClocksExplain: a case is undecided if its clock rates explain the difference.
func TestClocksExplain(t *testing.T) {
	one, two := forty(1, 20, 0.002).inSessions(), forty(2, 20, 0.002).inSessions()
	one.Between, two.Between = 0.001, 0.001
	two.Slow = func(ep.Problem, string) float64 { return 1.1 }
	a, b := one.load("a"), two.load("b")
	for i := range a.Results {
		a.Results[i].MHz = []float64{1980}
		b.Results[i].MHz = []float64{1800}
	}
	for _, x := range compare(t, reload(a), reload(b)).Cases {
		if x.Verdict != record.Undecided || !strings.Contains(x.Reason, "clocks differ") {
			t.Fatalf("%s: %s", x.Verdict, x.Reason)
		}
	}
}

func TestNotComparable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*reports.Loaded)
		allow  string
		want   string
	}{
		{"machine", func(l *reports.Loaded) { l.Run.Machine.SMs = 78 }, "machine", "sms=132"},
		{"kernels", func(l *reports.Loaded) { l.Run.ABI = "other" }, "kernels", "ABI other"},
		{"mode", func(l *reports.Loaded) {
			for i := range l.Results {
				l.Results[i].Problem.Mode = ep.Eager
			}
		}, "mode", "graph against eager"},
	} {
		a, b := pair(1, 12, nil)
		c.change(b)
		_, err := reports.Compare(a, reload(b), reports.CompareOptions{})
		var unlike *reports.NotComparable
		if !errors.As(err, &unlike) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--allow "+c.allow) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := reports.Compare(a, b, reports.CompareOptions{Allow: map[string]bool{c.allow: true}}); err != nil {
			t.Errorf("%s allowed: %v", c.name, err)
		}
	}
}

func TestNoCommonCase(t *testing.T) {
	a, b := pair(1, 12, nil)
	for i := range b.Results {
		b.Results[i].Problem.Ranks = 4
	}
	_, err := reports.Compare(a, reload(b), reports.CompareOptions{})
	if want := "no case was measured on both sides; A has 8 ranks, B has 4 ranks"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestOneRecording(t *testing.T) {
	one, copied, other := forty(3, 20, noise).inSessions(), forty(3, 20, noise).inSessions(), forty(4, 20, noise).inSessions()
	c := compare(t, one.load("a"), copied.load("copy"))
	undecided := 0
	for _, x := range c.Cases {
		if x.Verdict == record.Undecided {
			undecided++
			if x.Reason != "A and B are the same recording" {
				t.Errorf("%s: %s", x.Case.Title(), x.Reason)
			}
		}
	}
	if undecided == 0 || len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], "A and B are the same recording: all measured times of A are also times of B, so") || strings.Contains(c.Summary(), "sessions") {
		t.Errorf("%d cases undecided, notes %q, summary %s", undecided, c.Notes, c.Summary())
	}
	if c := compare(t, one.load("a"), other.load("b")); len(c.Notes) > 0 && strings.Contains(c.Notes[0], "same recording") {
		t.Error(c.Notes)
	}
}

func TestCompareWarnsOfSeeds(t *testing.T) {
	a, b := pair(1, 12, nil)
	c := compare(t, a, b)
	if want := "a has seed 2, b has seed 3: the seed changes which experts tokens select"; len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], want) {
		t.Errorf("notes %q, want %q", c.Notes, want)
	}
}

func TestBrokenAndMissingCases(t *testing.T) {
	a, b := pairOfSessions(1, nil)
	broken := b.Cases[0].Problem
	missing := b.Cases[1].Problem
	var kept []record.Result
	for _, r := range b.Results {
		if r.Problem == missing && r.Routing == b.Cases[1].Routing {
			continue
		}
		if r.Problem == broken && r.Routing == b.Cases[0].Routing {
			r.Status, r.Reason, r.Seconds = ep.Mismatch, "row 3 differs", nil
		}
		kept = append(kept, r)
	}
	b.Results = kept
	c := compare(t, a, reload(b))
	g := c.Gate(0.03)
	if len(g.Regressed) != 1 || !c.Cases[g.Regressed[0]].Broken {
		t.Errorf("regressed: %v", g.Regressed)
	}
	if len(g.Unsure) != 1 || !strings.Contains(c.Cases[g.Unsure[0]].Reason, "not measured in b") {
		t.Errorf("unsure: %v", g.Unsure)
	}
}

func TestLiveComparison(t *testing.T) {
	blocks := []trial{
		{"uniform", "sms=8", def, "ab", 0, nil, ""}, {"uniform", "sms=16", cand, "ab", 0, nil, ""}, {"uniform", "sms=8", record.Twin, "ab", 0, nil, ""},
	}
	drift := 1.0
	for i := range 40 {
		drift *= 1.02
		wobble := 1 + 0.001*float64(i%3)
		blocks[0].micros = append(blocks[0].micros, 10*drift)
		blocks[1].micros = append(blocks[1].micros, 10.7*drift*wobble)
		blocks[2].micros = append(blocks[2].micros, 10*drift*wobble)
	}
	l := build(blocks)
	c := reports.CompareLive(l.Run, l.Results, 0.01)
	x := c.Cases[0]
	if x.Verdict != record.Slower || x.Ratio.Mid < 1.065 || x.Ratio.Mid > 1.075 {
		t.Errorf("%s, ratio %.4f (%.4f to %.4f): %s", x.Verdict, x.Ratio.Mid, x.Ratio.Low, x.Ratio.High, x.Reason)
	}
}
