package workloads

import (
	"math"
	"strconv"
	"testing"
)

// TestTargets draws a large workload, so that chance stays below 2 %.
func TestTargets(t *testing.T) {
	if raceEnabled {
		t.Skip("draws large workloads; left out under the race detector, because other tests draw smaller ones there")
	}
	for _, name := range []string{"zipf", "powerlaw", "lognormal", "dirichlet"} {
		for statistic, targets := range map[string][]string{
			"gini": {"0.1", "0.25", "0.35", "0.7"}, "maxmean": {"1.5", "4.0"}, "effective": {"64.0", "200.0"},
		} {
			for _, target := range targets {
				spec := name + ":" + statistic + "=" + target
				if spec == "powerlaw:maxmean=1.5" {
					continue // out of reach
				}
				p := v3(32768)
				s := MeasureCounts(mustNew(t, spec, p, 1).TotalCounts(), p.Ranks)
				got := map[string]float64{"gini": s.Gini, "maxmean": s.MaxMeanExpert, "effective": s.EffectiveExperts}[statistic]
				want, _ := strconv.ParseFloat(target, 64)
				if math.Abs(got/want-1) > 0.02 {
					t.Errorf("%s: drew %.4f", spec, got)
				}
			}
		}
	}
}

func TestSolve(t *testing.T) {
	for spec, param := range map[string]string{"zipf:gini=0.3": "a", "lognormal:gini=0.25": "sigma", "dirichlet:effective=64.0": "alpha"} {
		sol, ok, err := Solve(mustParse(t, spec), v3(64), 1)
		if err != nil || !ok || sol.Param != param || math.Abs(sol.Expected/sol.Target-1) > 2e-4 {
			t.Errorf("%s: solution %+v, solved %v, error %v", spec, sol, ok, err)
		}
	}
	if sol, ok, err := Solve(mustParse(t, "zipf:1.0"), v3(64), 1); ok || err != nil {
		t.Errorf("zipf:1.0 has nothing to solve: %+v, %v", sol, err)
	}
}
