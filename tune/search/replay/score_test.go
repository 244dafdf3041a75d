package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/exchange"
)

func hundred(t *testing.T) *Model {
	t.Helper()
	s := &exchange.Space{Name: "hundred"}
	for i := range 100 {
		c := ep.Config{Kernel: "kernel", Values: map[string]ep.Value{"i": ep.Value(fmt.Sprint(i))}}
		time := 1 + float64(i*i%101)/10 + float64(i)/1000
		s.Points = append(s.Points, exchange.Point{Config: c, Time: time / 1e3, Prepare: 1})
	}
	m, err := FromSpace(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBaseline compares with autotuning_methodology 1.1.0. For these times, its cutoff_point(0.95) returns 33,
// cutoff_point(0.5) returns 3, and cutoff_point(0.01) returns 1. Its _redwhite_index_value returns the times in the
// second list.
func TestBaseline(t *testing.T) {
	b := hundred(t).Baseline()
	for share, want := range map[float64]int{0.95: 33, 0.5: 3, 0.01: 1} {
		if got := b.tries(share); got != want {
			t.Errorf("tries(%g) = %d, want %d", share, got, want)
		}
	}
	for tried, want := range map[int]float64{1: 5.994, 2: 4.038, 3: 3.183, 5: 2.697, 10: 1.662, 25: 1.402, 60: 1} {
		if got := 1e3 * b.at(float64(tried)*b.each); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %d configs: %g ms, want %g", tried, got, want)
		}
	}
}

// TestScoreOfKnownSearches: the best config scores 1, the baseline 0, and the slowest config less than 0.
func TestScoreOfKnownSearches(t *testing.T) {
	b := hundred(t).Baseline()
	var own []step
	for k := range 1000 {
		now := b.Cutoff * float64(k) / 1000
		own = append(own, step{now, b.at(now)})
	}
	best, slowest := b.slowest[len(b.slowest)-1], b.slowest[0]
	for name, c := range map[string]struct {
		steps     []step
		low, high float64
	}{
		"best at once":  {[]step{{0, best}}, 1 - 1e-9, 1 + 1e-9},
		"the baseline":  {own, -0.02, 0.02},
		"the slowest":   {[]step{{0, slowest}}, math.Inf(-1), -1},
		"nothing tried": {nil, math.Inf(-1), -1},
	} {
		if got := b.Score([][]step{c.steps}); got < c.low || got > c.high {
			t.Errorf("%s: score %g, want %g to %g", name, got, c.low, c.high)
		}
	}
}

func TestSearchesBeatRandomSearch(t *testing.T) {
	simulates(t)
	m := hundred(t)
	for i := range m.Truth {
		m.Truth[i] = (1 + float64(i)/10) / 1e3
	}
	s := Study{Strategy: search.DefaultStrategy, Replays: 10, Protocol: search.OnGPU(), Seed: 1}
	score, r, err := s.ScoreOf(context.Background(), m)
	if err != nil || score < 0.2 || r.Seconds > 1.5*m.Baseline().Cutoff {
		t.Errorf("score %g, %+v, %v", score, r, err)
	}
}

func TestScoreNeedsAPace(t *testing.T) {
	m := SyntheticKernels(Noise{}, 1)
	m.Truth = make([]float64, m.Space.Len())
	if _, _, err := (Study{}).ScoreOf(context.Background(), m); !errors.Is(err, ErrNoPace) {
		t.Errorf("got %v", err)
	}
}

func TestFailuresCostTime(t *testing.T) {
	s, err := exchange.ReadFile("../exchange/testdata/pnpoly-RTX_3090_T4.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := FromSpace(s)
	if err != nil {
		t.Fatal(err)
	}
	if share := m.ValidShare(); math.Abs(share-64.0/74) > 1e-9 {
		t.Errorf("%g of the configs are valid, want 64 of 74", share)
	}
	for _, p := range s.Points {
		if p.Failure == "" {
			continue
		}
		e := m.Machine(1)
		at, _ := m.Space.Index(p.Config)
		samples, err := e.Measure(context.Background(), "", []int{at}, 2)
		if err != nil || len(samples) != 0 || math.Abs(e.Spent().Seconds()-p.Prepare-2*m.Pace.Sample) > 1e-6 {
			t.Errorf("%s: %d samples in %v, prepared in %g s", p.Config.Key(), len(samples), e.Spent(), p.Prepare)
		}
	}
}
