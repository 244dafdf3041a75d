package measure

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/workloads"
)

// beside is a fake backend with a matrix product in its rounds.
type beside struct {
	fake
	lacks bool // the worker runs no products
	moody bool // the product's time varies between runs
	folds []int
}

func (b *beside) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	_, err := b.fake.Open(ctx, w)
	return b, err
}

func (b *beside) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	r, err := b.fake.Run(ctx, c, spec)
	b.folds = append(b.folds, spec.Fold)
	if b.lacks {
		return r, err
	}
	scaled := func(by float64) [][]float64 {
		var out [][]float64
		for _, ranks := range r.Seconds {
			var row []float64
			for _, s := range ranks {
				row = append(row, by*s)
			}
			out = append(out, row)
		}
		return out
	}
	product := 10.0
	if b.moody {
		product += float64(len(b.folds) % 2)
	}
	r.Beside = &ep.BesideRounds{Call: scaled(1), Product: scaled(product), Both: scaled(13), CallIn: scaled(2), ProductIn: scaled(12), Done: scaled(1), Amount: "x"}
	r.Seconds = r.Beside.Cost()
	return r, err
}

func besideRunner(t *testing.T, b *beside) (*Runner, *kept) {
	t.Helper()
	r, log := runner(t, &b.fake, "uniform", 1)
	r.Backend = b
	r.Workload.Problem.Beside, r.Workload.Problem.Objective = "copy", ep.BesideProduct
	return r, log
}

func TestBesideIsRecorded(t *testing.T) {
	b := &beside{}
	r, log := besideRunner(t, b)
	for _, stage := range []record.Stage{record.StageScreen, record.StageConfirm} {
		if _, err := r.Measure(context.Background(), stage, live, 4); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range log.lines {
		if line.Beside == nil || line.Beside.Validate(4, 4) != nil || line.Seconds[0][1] < 2.9e-5 || line.Seconds[0][1] > 3.1e-5 {
			t.Fatalf("%+v", line)
		}
	}
	if got := r.Beside(2); got == nil || len(got.Both) != 4 || got.Amount != "x" {
		t.Errorf("Beside(2) returned %+v, want the 4 rounds of the confirmation", got)
	}
	want := int(besideSamples * r.Policy.MinSample / 1e-5)
	if last := b.folds[len(b.folds)-1]; last != min(want, r.Policy.MaxFold) {
		t.Errorf("%d calls per sample, want %d", last, want)
	}
}

// TestFailureBesideIsRead: a run directory can be read if a candidate failed beside a product.
func TestFailureBesideIsRead(t *testing.T) {
	b := &beside{}
	runs := 0
	b.onRun = func(c ep.Config) error {
		if c.Int("sms") == 4 {
			if runs++; runs == 3 {
				return kernels.Failf(ep.Hang, "rank 1 waited for rank 2")
			}
		}
		return nil
	}
	r, _ := besideRunner(t, b)
	dir := filepath.Join(t.TempDir(), "run")
	d, err := record.CreateDir(dir, &record.Run{Machine: b.Machine()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r.Log = d
	if _, err := r.Measure(t.Context(), record.StageScreen, live, 4); err != nil || len(r.Failures()) != 1 {
		t.Fatalf("%v, failures %v", err, r.Failures())
	}
	if _, results, warnings, err := record.ReadDir(dir); err != nil || warnings != nil || len(results) != len(live) {
		t.Errorf("%d results, %v, %v", len(results), warnings, err)
	}
}

func TestBesideMustMatchTheProblem(t *testing.T) {
	r, log := besideRunner(t, &beside{lacks: true})
	_, _ = r.Measure(context.Background(), record.StageScreen, live, 2)
	for _, line := range log.lines {
		if line.Status != ep.Unstable || !strings.Contains(line.Reason, "use a worker that supports matrix products") {
			t.Fatalf("%s: %s", line.Status, line.Reason)
		}
	}
	line := record.Result{Problem: ep.Problem{Ranks: 1}}
	if err := addBeside(&line, &ep.BesideRounds{}); err == nil {
		t.Error("times of a product were accepted for a problem without a product")
	}
}

// TestCostsShareTheProductAlone: for all costs of a block, the Runner subtracts the same time of the product without
// calls.
func TestCostsShareTheProductAlone(t *testing.T) {
	r, log := besideRunner(t, &beside{moody: true})
	if _, err := r.Measure(context.Background(), record.StageScreen, live, 3); err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, line := range log.lines {
		for k, ranks := range line.Seconds {
			for rank, cost := range ranks {
				first := log.lines[0].Beside.Base[k][rank]
				if got := line.Beside.Both[k][rank] - first; got > ep.LeastCost && (cost < 0.999*got || cost > 1.001*got) || line.Beside.Base[k][rank] != first {
					t.Fatalf("round %d of %s: cost %v, want %v", k, line.Config.Key(), cost, got)
				}
				if line.Beside.Product[k][rank] != first {
					own++
				}
			}
		}
	}
	if own == 0 {
		t.Error("all configs have the same time of the product without calls: nothing is tested")
	}
}
