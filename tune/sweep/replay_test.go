package sweep

import (
	"context"
	"math"
	"testing"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/replay"
	"github.com/epbench/epbench/tune/stat"
)

func TestRecordedRunReplays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	dir := t.TempDir()
	mustSweep(t, &scripted{Sigma: 0.02}, options(t, "dispatch", []int{16}, "uniform"), dir)
	run, results, _, err := record.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	models, err := replay.FromRecordings(record.Recordings(run, results), replay.Named)
	if err != nil || len(models) != 1 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	m := models[0]
	for i := range m.Space.Len() {
		want := landscape(results[0].Problem, "", m.Space.Config(i))
		if math.Abs(m.Truth[i]/want-1) > 0.05 {
			t.Errorf("%s: %.3g s in the model, %.3g in truth", m.Space.Config(i).Key(), m.Truth[i], want)
		}
	}
	if s := stat.Spread(m.Noise.Residuals); s < 0.01 || s > 0.03 {
		t.Errorf("the noise is %.3f, want 0.02", s)
	}
	r, err := replay.Study{Strategy: "race", Replays: 20, Protocol: search.OnGPU(), Seed: 1}.Run(context.Background(), func(int) *replay.Model { return m })
	if err != nil || r.Regret > 0.01 || r.Flips > 0.2 {
		t.Errorf("%+v, %v", r, err)
	}
}
