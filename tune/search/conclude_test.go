package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// script is an evaluator that returns times from the function `seconds`. NaN means a failure.
type script struct {
	seconds func(stage record.Stage, point, round int) float64
	asked   []string // stage, points and rounds
	round   int
	failed  map[int]bool
	err     error
}

func (s *script) Spent() time.Duration { return 0 }

func (s *script) Measure(_ context.Context, stage record.Stage, live []int, rounds int) ([]Sample, error) {
	s.asked = append(s.asked, fmt.Sprintf("%s %v %d", stage, live, rounds))
	if s.err != nil {
		return nil, s.err
	}
	var out []Sample
	failed := map[int]bool{}
	for range rounds {
		for _, i := range live {
			if t := s.seconds(stage, i, s.round); math.IsNaN(t) || failed[i] {
				failed[i] = true
			} else {
				out = append(out, Sample{i, s.round, t})
			}
		}
		s.round++
	}
	return out, nil
}

// sixPoints returns a search over six points. Point 0 is the default.
func sixPoints(t *testing.T, e Evaluator, b Budget, required ...int) *State {
	t.Helper()
	s := newSpace(t, Grid{Kernel: "k", Axes: []Axis{ints("a", 0, 1, 2, 3, 4, 5)}})
	return NewState(s, e, b, 0, required, rand.New(rand.NewPCG(1, 1)))
}

func secondsByPoint(seconds ...float64) func(record.Stage, int, int) float64 {
	return func(_ record.Stage, point, _ int) float64 { return seconds[max(point, 0)] }
}

// changedIn returns a function of times. It gives `seconds` for one point in one stage, and the result of `other` in
// all other cases.
func changedIn(stage record.Stage, point int, seconds float64, other func(record.Stage, int, int) float64) func(record.Stage, int, int) float64 {
	return func(s record.Stage, p, round int) float64 {
		if s == stage && p == point {
			return seconds
		}
		return other(s, p, round)
	}
}

var protocol = Protocol{Band: 0.01, AARounds: 10, MaxAA: 40, Finalists: 3, MinRounds: 4, MaxRounds: 12, ConfirmRounds: 6}

var quietAA = record.AA{Spread: 0.001, Rounds: 10}

func rules(aa record.AA) DecisionRules {
	return DecisionRules{Preference: Preference{Incumbent: -1, Default: 0, Neighbour: -1, Cost: func(int) ep.Cost { return ep.Cost{} }},
		Protocol: protocol, AA: aa}
}

var nan = math.NaN()

var truth = secondsByPoint(2, 1.5, 1, 3, 3, 3)

func TestConclude(t *testing.T) {
	lost := errors.New("the machine is lost")
	for _, c := range []struct {
		name    string
		seconds func(record.Stage, int, int) float64
		aa      record.AA
		asked   string
		verdict record.Verdict
		cause   record.Cause
		config  int
		other   int
		gain    float64
		err     error
	}{
		{"the challenger wins", truth, quietAA, "confirm [0 2 1] 6", record.Faster, "", 2, 2, 2, nil},
		{"the challenger fails, the next wins", changedIn(record.StageConfirm, 2, nan, truth), quietAA,
			"confirm [0 2 1] 6; confirm [0 1] 6", record.Faster, "", 1, 1, 2 / 1.5, nil},
		{"all challengers fail", changedIn(record.StageConfirm, 1, nan, changedIn(record.StageConfirm, 2, nan, truth)), quietAA,
			"confirm [0 2 1] 6; confirm [0 1] 6; confirm [0] 10", record.Same, "", 0, 0, 1, nil},
		{"the default fails", changedIn(record.StageConfirm, 0, nan, truth), quietAA, "confirm [0 2 1] 6", "", "", 0, 0, 0, ErrNoFinalist},
		{"the finals were lucky", changedIn(record.StageConfirm, 1, 3, changedIn(record.StageConfirm, 2, 1.99, truth)), quietAA, "confirm [0 2 1] 6; confirm [0 2 1] 4", record.Undecided, "", 0, 2, 2 / 1.99, nil},
		{"the finals were wrong", changedIn(record.StageConfirm, 1, 3, changedIn(record.StageConfirm, 2, 3, truth)), quietAA, "confirm [0 2 1] 6", record.Undecided, "", 0, 2, 2.0 / 3, nil},
		{"the runner-up is faster", changedIn(record.StageConfirm, 2, 1.96, truth), quietAA, "confirm [0 2 1] 6; confirm [0 2 1] 4", record.Faster, "", 1, 1, 2 / 1.5, nil},
		{"no fewer rounds than A/A", changedIn(record.StageConfirm, 1, 3, changedIn(record.StageConfirm, 2, 1.96, truth)), record.AA{Rounds: 30},
			"confirm [0 2 1] 6; confirm [0 2 1] 24", record.Faster, "", 2, 2, 2 / 1.96, nil},
		{"a clear gain", truth, record.AA{Rounds: 30}, "confirm [0 2 1] 6", record.Faster, "", 2, 2, 2, nil},
		{"half of the finals' rounds", truth, record.AA{Rounds: 3}, "confirm [0 2 1] 6", record.Faster, "", 2, 2, 2, nil},
		{"a noisy machine", truth, record.AA{Spread: 0.3, Rounds: 10}, "confirm [0 2 1] 6; confirm [0 2 1] 4", record.Undecided, record.Noisy, 0, 2, 2, nil},
		{"a noisy machine and a plain gain", truth, record.AA{Spread: 0.02, Rounds: 10}, "confirm [0 2 1] 6", record.Faster, "", 2, 2, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &script{seconds: c.seconds}
			h := sixPoints(t, e, Budget{}, 1, 2)
			finals, err := h.Finals(context.Background(), protocol, record.StageFinals)
			if err != nil || len(finals) != 3 {
				t.Fatal(finals, err)
			}
			before, measured := slices.Clone(finals), len(e.asked)
			end, err := h.Conclude(context.Background(), finals, rules(c.aa))
			if !errors.Is(err, c.err) || err != nil && c.err == nil {
				t.Fatal(err)
			}
			if got := strings.Join(e.asked[measured:], "; "); got != c.asked {
				t.Errorf("measured %s, want %s", got, c.asked)
			}
			if !reflect.DeepEqual(finals, before) {
				t.Error("the caller's finalists were changed")
			}
			if err != nil {
				return
			}
			d := end.Decision
			if d.Verdict != c.verdict || d.Cause != c.cause || d.Config.Int("a") != c.config || d.Challenger.Int("a") != c.other || d.Default.Int("a") != 0 {
				t.Errorf("%s %s: config %s, challenger %s", d.Verdict, d.Cause, d.Config.Key(), d.Challenger.Key())
			}
			if math.Abs(d.ChallengerGain.Mid/c.gain-1) > 1e-9 || d.Band != (record.Band{Policy: 0.01, AA: c.aa.Spread}) {
				t.Errorf("gain of the challenger %v, band %v", d.ChallengerGain, d.Band)
			}
			covers := strings.Contains(strings.Join(end.Winner.Warnings, " "), "the interval covers both") && d.ChallengerGain.High > 1.99
			if strings.HasPrefix(c.name, "the finals were") && !covers {
				t.Errorf("gain %v with warnings %v", d.ChallengerGain, end.Winner.Warnings)
			}
			if end.Winner.Point != c.config || end.Default.Point != 0 || end.Ties != 1 || math.Abs(end.Default.Median-2) > 1e-9 || d.Rounds != end.Winner.Rounds {
				t.Errorf("winner %+v, default %+v, %d ties", end.Winner, end.Default, end.Ties)
			}
		})
	}
	e := &script{seconds: truth}
	h := sixPoints(t, e, Budget{}, 1, 2)
	if _, err := h.Conclude(context.Background(), nil, rules(quietAA)); !errors.Is(err, ErrNoFinalist) || len(e.asked) > 0 {
		t.Errorf("without finalists: %v after %v", err, e.asked)
	}
	e.err = lost
	if _, err := h.Conclude(context.Background(), []Finalist{finalist(2, -0.5)}, rules(quietAA)); !errors.Is(err, lost) {
		t.Errorf("a lost machine: %v", err)
	}
}

// TestConcludeMarksFailures: later searches must not propose a config that failed in the confirmation.
func TestConcludeMarksFailures(t *testing.T) {
	e := &script{seconds: changedIn(record.StageConfirm, 2, nan, truth)}
	s := sixPoints(t, e, Budget{}, 1, 2)
	finals, _ := s.Finals(context.Background(), protocol, record.StageFinals)
	if _, err := s.Conclude(context.Background(), finals, rules(quietAA)); err != nil || !s.Failed(2) || s.Failed(1) || s.Failed(0) {
		t.Errorf("failed: %v, %v", s.failed, err)
	}
	s.Revive([]int{2})
	if s.Failed(2) {
		t.Error("point 2 was revived, but still counts as failed")
	}
}

func TestConcludeHostBound(t *testing.T) {
	e := &script{seconds: changedIn(record.StageConfirm, 0, 1.9, truth)}
	s := sixPoints(t, e, Budget{}, 1, 2)
	finals, _ := s.Finals(context.Background(), protocol, record.StageFinals)
	x := rules(quietAA)
	x.HostBound = func(seconds float64) string {
		if math.Abs(seconds-1.9) < 1e-9 {
			return "an empty kernel takes as long"
		}
		return ""
	}
	end, err := s.Conclude(context.Background(), finals, x)
	if err != nil || end.Decision.Cause != record.HostBound || !end.Decision.KeepsDefault() || end.Winner.Point != 0 || end.Decision.Reason == "" {
		t.Errorf("%+v, %v", end.Decision, err)
	}
	x.HostBound = func(float64) string { return "" }
	if end, _ := s.Conclude(context.Background(), finals, x); end.Decision.Verdict != record.Faster {
		t.Errorf("%+v", end.Decision)
	}
}

func TestProtocol(t *testing.T) {
	p := Protocol{Band: 0.01, MaxRounds: 50, ConfirmRounds: 25}
	for _, c := range []struct{ aa, finals, most int }{{20, 50, 25}, {25, 50, 25}, {26, 50, 26}, {50, 50, 50}, {120, 120, 120}} {
		aa := record.AA{Rounds: c.aa}
		q := p.After(aa)
		if want := (StopRule{MinRounds: 25, MaxRounds: c.most, Band: 0.01}); q.MaxRounds != c.finals || p.confirmRule(aa) != want || q.confirmRule(aa) != want {
			t.Errorf("after %d A/A rounds: %d rounds of finals, %+v to confirm", c.aa, q.MaxRounds, q.confirmRule(aa))
		}
	}
	gpu, host := OnGPU(), OnHost()
	if gpu.Band != 0.01 || host.Band != 0.1 || gpu.MaxRounds != 50 || host.Finalists >= gpu.Finalists || gpu.AARounds >= host.AARounds {
		t.Errorf("%+v, %+v", gpu, host)
	}
}

type clocked struct {
	script
	each  time.Duration // time of a sample
	first time.Duration // added to the first call
	spent time.Duration
}

func (c *clocked) Spent() time.Duration { return c.spent }

func (c *clocked) Measure(ctx context.Context, stage record.Stage, live []int, rounds int) ([]Sample, error) {
	out, err := c.script.Measure(ctx, stage, live, rounds)
	c.spent += c.each*time.Duration(len(out)) + c.first
	c.first = 0
	return out, err
}

func TestAA(t *testing.T) {
	twin := func(ratio float64) func(record.Stage, int, int) float64 {
		return func(_ record.Stage, point, _ int) float64 {
			if point == Twin {
				return 2 * ratio
			}
			return 2
		}
	}
	p := Protocol{Band: 0.1, AARounds: 10, MaxAA: 35}
	for _, c := range []struct {
		name   string
		ratio  float64
		limit  time.Duration
		rounds int
	}{
		{"quiet", 1, 0, 10},
		{"just quiet enough", 1.0999, 0, 10},
		{"just too noisy", 1.1001, 0, 40},
		{"quiet below 1", 0.9001, 0, 10},
		{"too noisy below 1", 0.8999, 0, 40},
		{"out of time", 1.2, 20 * time.Second, 30},
		{"time enough", 1.2, time.Hour, 40},
	} {
		for _, p.MaxAA = range []int{35, 40} {
			e := &clocked{script: script{seconds: twin(c.ratio)}, each: time.Second, first: time.Hour}
			aa, err := p.MeasureAA(context.Background(), e, 3, c.limit)
			if err != nil || aa.Rounds != c.rounds || math.Abs(aa.Ratio-c.ratio) > 1e-9 || math.Abs(aa.Spread-math.Abs(c.ratio-1)) > 1e-9 || math.Abs(aa.Default-2) > 1e-9 {
				t.Errorf("%s: %+v, %v, want %d rounds", c.name, aa, err, c.rounds)
			}
			if e.asked[0] != "aa [3 -1] 10" {
				t.Errorf("%s: asked for %s", c.name, e.asked[0])
			}
		}
	}
}

func TestAASpreadIsHalfTheInterval(t *testing.T) {
	e := &script{seconds: func(_ record.Stage, point, round int) float64 {
		off := 1.5 + 0.001*float64(round) // equal readings would show a coarse clock
		if point == Twin && round%2 == 0 {
			return off
		}
		if point == Twin {
			return 1 / off
		}
		return 1
	}}
	aa, err := Protocol{Band: 0.1, AARounds: 20, MaxAA: 20}.MeasureAA(context.Background(), e, 0, 0)
	if err != nil || aa.Spread < 0.3 || math.Abs(aa.Ratio-1) > 0.01 {
		t.Errorf("%+v, %v", aa, err)
	}
}

func TestAAFails(t *testing.T) {
	p := Protocol{Band: 0.1, AARounds: 10, MaxAA: 40}
	for name, seconds := range map[string]func(record.Stage, int, int) float64{
		"the default fails":                   secondsByPoint(nan),
		"the default fails in the last round": func(_ record.Stage, point, round int) float64 { return []float64{1, nan}[round/9] },
		"only the twin fails":                 func(_ record.Stage, point, _ int) float64 { return []float64{nan, 1}[point+1] },
	} {
		if _, err := p.MeasureAA(context.Background(), &script{seconds: seconds}, 0, 0); !errors.Is(err, ErrDefault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lost := errors.New("lost")
	if _, err := p.MeasureAA(context.Background(), &script{err: lost}, 0, 0); !errors.Is(err, lost) {
		t.Errorf("a lost machine: %v", err)
	}
}

func TestNeighboursAreInHalfOfTheRounds(t *testing.T) {
	e := &script{}
	e.seconds = func(stage record.Stage, point, _ int) float64 {
		seconds := []float64{2, 1.5, 1, 1.6, 1.7, 1.8}[point]
		if point == 2 && strings.HasPrefix(e.asked[len(e.asked)-1], "confirm [0 2 1 ") {
			return seconds * 2 / 1.8
		}
		return seconds
	}
	h := sixPoints(t, e, Budget{}, 1, 2, 3, 4, 5)
	finals, err := h.Finals(context.Background(), protocol, record.StageFinals)
	if err != nil {
		t.Fatal(err)
	}
	before := len(e.asked)
	end, err := h.Conclude(context.Background(), finals, rules(quietAA))
	if got := strings.Join(e.asked[before:], "; "); err != nil || got != "confirm [0 2 1] 3; confirm [0 2 1 3 4 5] 3" {
		t.Fatalf("%v; %s", err, got)
	}
	if g := end.Decision.Gain; g.Low > 1.8 || g.High < 2 || len(end.Winner.Warnings) == 0 || fmt.Sprint(end.Others) != "[1 3 4 5]" {
		t.Errorf("gain %v, others %v, warnings %v", g, end.Others, end.Winner.Warnings)
	}
}
