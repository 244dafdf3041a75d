package stat

import (
	"math"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestBeside(t *testing.T) {
	var together ep.BesideRounds
	for i := range 9 {
		drift := 10 * float64(i)
		rows := func(a, b float64) [][]float64 { return [][]float64{{a, b}} }
		together.Append(&ep.BesideRounds{Call: rows(1, 2), CallIn: rows(3, 2), Product: rows(100+drift, 90), ProductIn: rows(110+1.1*drift, 90),
			Both: rows(112+drift, 90), Done: rows(0.25, 0.5), Amount: "x"})
	}
	b := Beside(&together)
	for name, x := range map[string][2]float64{ // the middle round has i = 4, drift = 40
		"call": {b.Call.Mid, 2}, "call in": {b.CallIn.Mid, 3}, "product": {b.Product.Mid, 140}, "both": {b.Both.Mid, 152},
		"cost": {b.Cost.Mid, 12}, "cost's low end": {b.Cost.Low, 12}, "slow-down": {b.Slowdown.Mid, 1.1}, "done": {b.Done, 0.5},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, x[0], x[1])
		}
	}
	if b.Amount != "x" || !(b.Product.Low < 140 && b.Product.High > 140) {
		t.Errorf("%+v", b)
	}
}

func TestSaved(t *testing.T) {
	var config, dflt ep.BesideRounds
	for i := range 9 {
		drift := 10 * float64(i)
		config.Both = append(config.Both, []float64{90, 100 + drift})
		dflt.Both = append(dflt.Both, []float64{103 + drift, 80})
	}
	if s := Saved(&config, &dflt); s == nil || math.Abs(s.Mid-3) > 1e-9 || math.Abs(s.High-s.Low) > 1e-9 {
		t.Errorf("%+v, want 3 in every round", s)
	}
	dflt.Both = dflt.Both[1:]
	if s := Saved(&config, &dflt); s != nil {
		t.Errorf("%+v from 9 and 8 rounds", s)
	}
}
