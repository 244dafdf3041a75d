package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// wobble adds the same noise in every run of a test.
func wobble(sigma float64, seconds func(record.Stage, int, int) float64) func(record.Stage, int, int) float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	return func(stage record.Stage, point, round int) float64 {
		return seconds(stage, point, round) * math.Exp(sigma*rng.NormFloat64())
	}
}

func TestFinalsEndWhenDecided(t *testing.T) {
	p := Protocol{Band: 0.01, MinRounds: 4, MaxRounds: 21}
	for _, c := range []struct {
		name    string
		seconds func(record.Stage, int, int) float64
		asked   string
	}{
		{"clear after the first rounds", secondsByPoint(2, 1, 3), "x [0 1 2] 4"},
		{"all the same", secondsByPoint(1, 1, 1), "x [0 1 2] 4"},
		{"the default is clearly slower", wobble(0.001, secondsByPoint(2, 1, 1)), "x [0 1 2] 4"},
		{"close to the band", wobble(0.3, secondsByPoint(2, 1, 1.01)), "x [0 1 2] 4; x [0 2 1] 10; x [0 2 1] 7"},
		{"a loser drops out", wobble(0.3, secondsByPoint(2, 1, 1.01, 20)), "x [0 1 2 3] 4; x [0 1 2] 10; x [0 1 2] 7"},
	} {
		e := &script{seconds: c.seconds}
		live := []int{0, 1, 2}
		if strings.Contains(c.asked, "3]") {
			live = append(live, 3)
		}
		fs, err := sixPoints(t, e, Budget{}).FinalsOf(context.Background(), p, "x", live)
		if err != nil || len(fs) != len(live) {
			t.Errorf("%s: %d finalists, %v", c.name, len(fs), err)
		}
		if got := strings.Join(e.asked, "; "); got != c.asked {
			t.Errorf("%s: %s, want %s", c.name, got, c.asked)
		}
	}
	e := &script{seconds: secondsByPoint(1, 1)}
	if _, err := sixPoints(t, e, Budget{}).FinalsOf(context.Background(), Protocol{MinRounds: 9, MaxRounds: 5}, "x", []int{1}); err != nil || e.asked[0] != "x [0 1] 5" {
		t.Errorf("fewer rounds than the first step: %v, %v", e.asked, err)
	}
}

// TestFinalsEndInProportion: after a search with fewer samples, the finals measure fewer samples.
func TestFinalsEndInProportion(t *testing.T) {
	p := Protocol{Band: 0.01, Finalists: 2, MinRounds: 10, MaxRounds: 30}
	for _, c := range []struct {
		screen int
		calls  int // each of ten rounds
	}{
		{1, 1}, {2, 2}, {6, 4}, {12, 8}, {20, 12},
	} {
		e := &script{seconds: wobble(0.3, secondsByPoint(2, 1, 1.01))}
		s := sixPoints(t, e, Budget{})
		if err := s.Measure(context.Background(), "s", []int{1, 2}, c.screen); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Finals(context.Background(), p, "f"); err != nil {
			t.Fatal(err)
		}
		if got, want := roundsOf(e.asked[1:]), strings.TrimSpace(strings.Repeat("10 ", c.calls)); got != want {
			t.Errorf("after %d samples: rounds %s, want %s", 3*c.screen, got, want)
		}
	}
}

// roundsOf returns the rounds of a script's calls.
func roundsOf(asked []string) string {
	var rounds []string
	for _, call := range asked {
		rounds = append(rounds, call[strings.LastIndex(call, " ")+1:])
	}
	return strings.Join(rounds, " ")
}

func TestFailuresInFinals(t *testing.T) {
	e := &script{seconds: changedIn("y", 3, nan, secondsByPoint(2, 1, 1, 1, 1, nan))}
	s := sixPoints(t, e, Budget{}, 5)
	ctx := context.Background()
	if err := s.Measure(ctx, "x", []int{1, 5}, 3); err != nil {
		t.Fatal(err)
	}
	fs, err := s.FinalsOf(ctx, protocol, "y", []int{1, 3, 5})
	points := []int{}
	for _, f := range fs {
		points = append(points, f.Point)
	}
	if err != nil || !slices.Equal(points, []int{1, 0}) || !s.Failed(3) || !s.Failed(5) || s.Failed(1) {
		t.Errorf("finalists %v, failed %v, %v", points, s.failed, err)
	}
	if !strings.HasPrefix(e.asked[1], "y [0 1 3] ") {
		t.Errorf("asked for %v", e.asked)
	}
	if s.Samples() != 3*2+2*4 {
		t.Errorf("%d samples, want 14", s.Samples())
	}
	e.seconds = secondsByPoint(nan, 1, 1)
	if _, err := s.FinalsOf(ctx, protocol, "z", []int{1}); !errors.Is(err, ErrDefault) {
		t.Errorf("the default fails: %v", err)
	}
}

func TestFinalsTakeTheBest(t *testing.T) {
	e := &script{seconds: secondsByPoint(9, 5, 4, 3, 2, 1)}
	s := sixPoints(t, e, Budget{}, 1)
	ctx := context.Background()
	if err := s.Measure(ctx, "x", []int{1, 2, 3, 4, 5}, 3); err != nil {
		t.Fatal(err)
	}
	p := protocol
	p.Finalists = 2
	e.asked = nil
	if _, err := s.Finals(ctx, p, "y"); err != nil || e.asked[0] != "y [0 5 4 1] 4" {
		t.Errorf("asked for %v, %v", e.asked, err)
	}
}

// elevenMeasured returns a search that has measured eleven points in six rounds. Their times differ by 2 % and by noise.
func elevenMeasured(t *testing.T, noise float64, limit time.Duration) *State {
	t.Helper()
	seconds := []float64{9}
	for i := range 11 {
		seconds = append(seconds, 1+0.02*float64(i))
	}
	e := &clocked{script: script{seconds: wobble(noise, secondsByPoint(seconds...))}, each: time.Second, spent: time.Hour}
	space := newSpace(t, Grid{Kernel: "k", Axes: []Axis{ints("blocks", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}})
	s := NewState(space, e, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	if err := s.Measure(context.Background(), "x", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 6); err != nil {
		t.Fatal(err)
	}
	s.budget.Time = limit
	return s
}

func TestFinalistsOfNoisySearches(t *testing.T) {
	for _, c := range []struct {
		noise float64
		most  int
		want  int // the default included
	}{{0.001, 24, fewestFinalists + 1}, {0.3, 24, 12}, {0.3, 8, 12}, {0.3, 4, 9}} {
		p := protocol
		p.Finalists = c.most
		if got := len(elevenMeasured(t, c.noise, 0).finalPoints(p)); got != c.want {
			t.Errorf("noise %g, at most %d: %d points, want %d", c.noise, c.most, got, c.want)
		}
	}
}

// TestFinalsInTime: with a time limit there are fewer finalists, but at least three. Time for the confirmation is left.
func TestFinalsInTime(t *testing.T) {
	confirm := time.Duration(protocol.confirmSamples())
	for _, c := range []struct {
		limit  time.Duration
		points int // the default included
		calls  int
	}{
		{time.Hour, 6, 4},
		{(18 + 20 + confirm) * time.Second, 5, 1}, // 20 s suffice for 4 finalists and the default in 4 rounds
		{(18 + 19 + confirm) * time.Second, 4, 1},
		{18 * time.Second, 4, 1},
		{time.Second, 4, 1},
	} {
		e := &clocked{script: script{seconds: secondsByPoint(9, 5, 4, 3, 2, 1)}, each: time.Second}
		h := sixPoints(t, e, Budget{}, 1, 2, 3, 4, 5) // required points are always measured
		ctx := context.Background()
		if err := h.Measure(ctx, "x", []int{1, 2, 3, 4, 5}, 3); err != nil {
			t.Fatal(err)
		}
		h.Required, h.budget.Time = []int{0}, c.limit
		e.asked, e.seconds = nil, wobble(0.3, secondsByPoint(1, 1, 1, 1, 1, 1))
		p := protocol
		p.Finalists, p.MaxRounds = 5, 14
		if _, err := h.Finals(ctx, p, "y"); err != nil {
			t.Fatal(err)
		}
		if points := len(strings.Fields(e.asked[0])) - 2; points != c.points || len(e.asked) != c.calls {
			t.Errorf("%v: %v, want %d points and %d calls", c.limit, e.asked, c.points, c.calls)
		}
	}
}

// TestConfirmationInTime: an unclear confirmation takes more rounds only while time is left.
func TestConfirmationInTime(t *testing.T) {
	const before, atLeast, each = 20, 8, 2 // samples, rounds, samples of a round
	for left, want := range map[int]int{0: 8, atLeast * each: 8, (atLeast + 5) * each: 13, 1000: 80} {
		e := &clocked{script: script{seconds: wobble(0.3, secondsByPoint(1, 1))}, each: time.Second}
		s := sixPoints(t, e, Budget{}, 1)
		if err := s.Measure(context.Background(), "x", []int{1}, before/2); err != nil {
			t.Fatal(err)
		}
		s.budget.Time = time.Duration(before+left) * time.Second
		win, _, err := s.MeasureAgainstDefault(context.Background(), "y", 1, StopRule{MinRounds: atLeast, MaxRounds: 80, Band: 0.01})
		if err != nil || win.Rounds != want {
			t.Errorf("%d s left: %d rounds, %v, want %d", left, win.Rounds, err, want)
		}
		s.budget.Time = e.Spent() + time.Duration(left)*time.Second
		if dflt, err := s.confirm(context.Background(), "z", []int{s.Default}, nil, StopRule{MinRounds: atLeast, MaxRounds: 80, Band: 0.01}); err != nil || dflt[0].Rounds != want {
			t.Errorf("%d s left: the default has %d rounds, %v, want %d", left, dflt[0].Rounds, err, want)
		}
	}
}

// TestReservedTime: the more finalists there will be, the more time is reserved. The time before the search does not
// count as time of samples.
func TestReservedTime(t *testing.T) {
	for noise, more := range map[float64]int{0.001: 0, 0.3: 6} {
		want := time.Duration(fewestFinalists*reservedRounds+more*reservedMore+reservedConfirm) * time.Second
		if got := elevenMeasured(t, noise, 1500*time.Second).reservedTime(); got != want {
			t.Errorf("noise %g: %v, want %v", noise, got, want)
		}
	}
}

// TestDropSlower: the default is never dropped.
func TestDropSlower(t *testing.T) {
	s := sixPoints(t, nil, Budget{})
	add := func(point int, logs ...float64) {
		for r, x := range logs {
			s.obs = append(s.obs, stat.Obs{Item: s.item(point), Round: r, Log: x})
		}
	}
	steady := func(x float64) []float64 { return slices.Repeat([]float64{x}, 20) }
	add(0, steady(0)...)
	add(1, steady(-1)...)
	add(2, steady(-1+math.Log1p(0.009))...)
	add(3, steady(-1+math.Log1p(0.011))...)
	rest, open := s.dropSlower(0.01)
	if !slices.Equal(rest, []int{1, 2, 0}) {
		t.Errorf("points %v are left, want 1, 2 and the default", rest)
	}
	if open { // the default is clearly slower
		t.Error("a comparison counts as undecided")
	}
	s.Default = 1
	if rest, open = s.dropSlower(0.01); open || !slices.Equal(rest, []int{1, 2}) {
		t.Errorf("points %v are left, undecided: %v", rest, open)
	}
	noisy := make([]float64, 20)
	for i := range noisy {
		noisy[i] = -1 + math.Log1p(0.011) + 0.02*float64(i%5-2)
	}
	add(4, noisy...)
	if rest, open = s.dropSlower(0.01); !open || !slices.Equal(rest, []int{1, 2, 4}) {
		t.Errorf("points %v are left, undecided: %v", rest, open)
	}
	lone := sixPoints(t, nil, Budget{})
	for r, x := range noisy {
		lone.obs = append(lone.obs, stat.Obs{Item: lone.item(0), Round: r, Log: 0}, stat.Obs{Item: lone.item(1), Round: r, Log: x})
	}
	if rest, open = lone.dropSlower(0.01); open || !slices.Equal(rest, []int{1, 0}) {
		t.Errorf("the best counts as undecided against itself: %v", rest)
	}
	if rest, open := sixPoints(t, nil, Budget{}).dropSlower(0.01); rest != nil || open {
		t.Errorf("without samples points %v are left, undecided: %v", rest, open)
	}
}

func TestGainIsOverCommonRounds(t *testing.T) {
	of := func(point int, rounds []int, seconds ...float64) Finalist {
		set := roundSet{rounds: rounds}
		for _, x := range seconds {
			set.logs = append(set.logs, math.Log(x))
		}
		return Finalist{Point: point, parts: []roundSet{set}}
	}
	dflt, f := of(0, []int{0, 1, 2}, 2, 4, 8), of(1, []int{1, 2}, 1, 2)
	if got := f.Gain(dflt); math.Abs(got.Mid-4) > 1e-9 || got.Rounds != 2 {
		t.Errorf("gain %v, want 4", got)
	}
	if got := dflt.Gain(dflt); got.Interval != record.One {
		t.Errorf("gain over itself: %v", got)
	}
}

func TestMeasureAgainstDefault(t *testing.T) {
	e := &script{seconds: changedIn("y", 2, 1.25, truth)}
	s := sixPoints(t, e, Budget{}, 2)
	ctx := context.Background()
	if err := s.Measure(ctx, "x", []int{2}, 5); err != nil {
		t.Fatal(err)
	}
	win, dflt, err := s.MeasureAgainstDefault(ctx, "y", 2, StopRule{MaxRounds: 8, MinRounds: 8})
	if err != nil || win.Point != 2 || win.Rounds != 8 || math.Abs(win.Median-1.25) > 1e-9 || dflt.Point != 0 || math.Abs(dflt.Median-2) > 1e-9 {
		t.Errorf("%+v, %+v, %v", win, dflt, err)
	}
	if math.Abs(win.Effect-math.Log(1.25/2)) > 1e-9 || s.Samples() != 2*5+2*8 {
		t.Errorf("effect %v, %d samples", win.Effect, s.Samples())
	}
	both, _, err := s.MeasureAgainstDefault(ctx, "z", 0, StopRule{MaxRounds: 8, MinRounds: 8})
	if err != nil || both.Point != 0 || both.Rounds != 8 {
		t.Errorf("the default against itself: %+v, %v", both, err)
	}
}

func TestConfirmationEndsEarly(t *testing.T) {
	for seconds, want := range map[float64]int{1: 25, 2 / 1.032: 25, 2 / 1.029: 80, 2: 80, 2 * 1.029: 80, 2 * 1.032: 25} {
		e := &script{seconds: changedIn("y", 2, seconds, truth)}
		win, dflt, err := sixPoints(t, e, Budget{}, 2).MeasureAgainstDefault(context.Background(), "y", 2, StopRule{MinRounds: 25, MaxRounds: 80, Band: 0.01})
		if err != nil || win.Rounds != want || dflt.Rounds != want {
			t.Errorf("%v s: %d and %d rounds, want %d, %v", seconds, win.Rounds, dflt.Rounds, want, err)
		}
	}
}

func TestFinalistsTimes(t *testing.T) {
	e := &script{seconds: func(_ record.Stage, point, round int) float64 {
		if point == 1 {
			return 1 + 0.1*float64(round)
		}
		return 2
	}}
	win, _, err := sixPoints(t, e, Budget{}, 1).MeasureAgainstDefault(context.Background(), "x", 1, StopRule{MaxRounds: 11, MinRounds: 11})
	if err != nil || win.Rounds != 44 || math.Abs(win.Median-3.15) > 1e-9 || math.Abs(win.P10-1.43) > 1e-9 || math.Abs(win.P90-4.87) > 1e-9 {
		t.Errorf("%+v, %v", win, err)
	}
	if len(win.Warnings) != 1 || !strings.Contains(win.Warnings[0], "drift") {
		t.Errorf("warnings %v", win.Warnings)
	}
}
