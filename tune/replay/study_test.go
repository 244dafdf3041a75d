package replay

import (
	"context"
	"testing"
)

func study(t *testing.T, s Study, draw func(int) *Model) Report {
	t.Helper()
	s.Confirm = Usual(0.01)
	r, err := s.Run(context.Background(), draw)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	return r
}

func TestRaceReachesItsTargets(t *testing.T) {
	r := study(t, Study{Strategy: "race", Replays: 150, Seed: 1}, func(i int) *Model {
		return Synthetic(SyntheticNoise(0.02), uint64(i))
	})
	if r.Regret > 0.0035 || r.Flips > 0.40 || r.MaxSamples > 3200 || r.Bias > 0.002 || r.Bias < -0.002 {
		t.Errorf("%+v", r)
	}
}
