package replay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// TestClaimsOverSessions: all configs are equally fast. At most 5 % of the searches claim a gain, and at least 93 % of
// the intervals contain 1.
func TestClaimsOverSessions(t *testing.T) {
	simulates(t)
	for _, c := range Scenarios() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s := Study{Strategy: "race", Replays: 80, Sessions: 3, Protocol: search.OnGPU(), Seed: 2}
			r, err := s.Claims(t.Context(), c)
			if err != nil || r.FalseFaster > 0.05 || r.Covered < 0.93 {
				t.Errorf("claims %.3f, covered %.3f, noisy %.3f, %v", r.FalseFaster, r.Covered, r.Noisy, err)
			}
		})
	}
}

// TestClaimsOfOneSession: with one session, the limits of TestClaimsOverSessions hold only in scenarios without
// BetweenSessions.
func TestClaimsOfOneSession(t *testing.T) {
	simulates(t)
	for _, c := range Scenarios() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s := Study{Strategy: "race", Replays: 80, Protocol: search.OnGPU(), Seed: 2}
			r, err := s.Claims(t.Context(), c)
			holds := r.FalseFaster <= 0.05 && r.Covered >= 0.93
			if visible := !c.BetweenSessions; err != nil || holds != visible {
				t.Errorf("claims %.3f, covered %.3f, noisy %.3f, %v", r.FalseFaster, r.Covered, r.Noisy, err)
			}
		})
	}
}

func TestOwnResiduals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	quiet, loud := make([]float64, 400), make([]float64, 400)
	x := 0.0
	for i := range quiet {
		x = nextAutoregressive(rng, x, 0.05, 0.8)
		quiet[i], loud[i] = 0.002*rng.NormFloat64(), x
	}
	m := Identical(Noise{Residuals: append(quiet, loud...), Own: [][]float64{quiet, loud}})
	samples, err := m.Machine(3).Measure(t.Context(), "screen", []int{0, 1, 2}, 3000)
	if err != nil {
		t.Fatal(err)
	}
	logs := make([][]float64, 3)
	for _, s := range samples {
		logs[s.Point] = append(logs[s.Point], math.Log(s.Seconds))
	}
	for point, want := range []struct{ spread, alike float64 }{{0.002, 0}, {0.05, 0.7}, {0.035, 0}} {
		spread, alike := rms(logs[point]), stat.Autocorrelation(logs[point])
		if math.Abs(spread/want.spread-1) > 0.2 || math.Abs(alike-want.alike) > 0.1 {
			t.Errorf("config %d: deviation %.4f, correlation %.2f; want %v", point, spread, alike, want)
		}
	}
}

func rms(xs []float64) float64 {
	squares := make([]float64, len(xs))
	for i, x := range xs {
		squares[i] = x * x
	}
	return math.Sqrt(mean(squares))
}

// TestStability: sessions differ by 2 %. Intervals from one session are too narrow for this difference.
func TestStability(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	var log []record.Result
	for _, sessions := range []int{3, 12} {
		for k := range 200 {
			p := ep.Problem{Op: ep.Dispatch, Tokens: 1000*sessions + k}
			block := func(stage record.Stage, n int) {
				for role, at := range map[record.Role]float64{record.Default: 2, record.Candidate: 1.5 * math.Exp(0.02*rng.NormFloat64())} {
					r := record.Result{Problem: p, Stage: stage, Block: n, Role: role, Status: ep.OK}
					for range 25 {
						r.Seconds = append(r.Seconds, []float64{at * math.Exp(0.01*rng.NormFloat64())})
					}
					log = append(log, r)
				}
			}
			block(record.StageConfirm, 0)
			for n := range sessions {
				block(record.StageSession, n)
			}
		}
	}
	s := StabilityOf(log)
	if s.Configs != 400 || s.Claims != 200+2*200 || s.Alone != 200*2+200*11 || math.Abs(s.GainSpread-0.02) > 0.002 {
		t.Fatalf("%+v", s)
	}
	if alone := float64(s.AloneBeyond) / float64(s.Alone); alone < 0.6 {
		t.Errorf("%.2f of the pairs are beyond the error of their rounds", alone)
	}
	if beyond := float64(s.Beyond) / float64(s.Claims); beyond > 0.08 {
		t.Errorf("%.2f of the claims are beyond their error", beyond)
	}
}
