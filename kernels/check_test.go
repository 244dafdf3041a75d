package kernels

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestImplausible(t *testing.T) {
	const good = 2e-6
	one := func(rounds ...float64) Rounds {
		r := Rounds{Clock: "chain", Fold: 1}
		for _, s := range rounds {
			r.Seconds = append(r.Seconds, []float64{s, s})
		}
		return r
	}
	for name, c := range map[string]struct {
		r    Rounds
		idle bool
		want bool
	}{
		"good":                  {r: one(good, good, good)},
		"one disturbed":         {r: one(good, LeastReading, good)},
		"most disturbed":        {r: one(LeastReading, LeastReading, good), want: true},
		"most disturbed, idle":  {r: one(LeastReading, LeastReading, good), idle: true},
		"below zero":            {r: one(good, -good, good), want: true},
		"below zero, idle":      {r: one(good, -good, good), idle: true},
		"a round less":          {r: one(good, good), want: true},
		"a clock without name":  {r: Rounds{Fold: 1, Seconds: one(good, good, good).Seconds}, want: true},
		"a stage below zero":    {r: Rounds{Clock: "chain", Fold: 1, Seconds: one(good, good, good).Seconds, Stages: []ep.StageTime{{Name: "first", Seconds: -1}}}, want: true},
		"too many clock rates":  {r: Rounds{Clock: "chain", Fold: 1, Seconds: one(good, good, good).Seconds, MHz: make([]float64, 3)}, want: true},
		"too many stages":       {r: Rounds{Clock: "chain", Fold: 1, Seconds: one(good, good, good).Seconds, Stages: slices.Repeat([]ep.StageTime{{Name: "s"}}, maxStages+1)}, want: true},
		"too many notes":        {r: Rounds{Clock: "chain", Fold: 1, Seconds: one(good, good, good).Seconds, Notes: make([]string, maxNotes+1)}, want: true},
		"a long note":           {r: Rounds{Clock: "chain", Fold: 1, Seconds: one(good, good, good).Seconds, Notes: []string{strings.Repeat("x", maxNote+1)}}, want: true},
		"times of another fold": {r: Rounds{Clock: "chain", Fold: 2, Seconds: one(good, good, good).Seconds}, want: true},
	} {
		if why := c.r.Implausible(RunSpec{Rounds: 3, Fold: 1}, 2, c.idle); (why != "") != c.want {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := one(LeastReading).Implausible(RunSpec{Rounds: 1, Fold: 1}, 2, false); why != "" {
		t.Errorf("one round that was disturbed: %q", why)
	}
}
