package measure

import (
	"context"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/workloads"
)

// divided is a fake backend whose first comparison ends only after the second candidate was verified.
type divided struct {
	*fake
	verified int
	second   chan struct{}
	late     bool
}

func (d *divided) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	_, err := d.fake.Open(ctx, w)
	return d, err
}

func (d *divided) StartVerify(ctx context.Context, c ep.Config) (rest func() kernels.Comparison, err error) {
	d.verified++
	if d.verified == 2 {
		close(d.second)
	}
	first := d.verified == 1
	return func() kernels.Comparison {
		if first {
			select {
			case <-d.second:
			case <-time.After(time.Minute):
				d.late = true
			}
		}
		v, _ := d.Verify(ctx, c)
		return v
	}, nil
}

func TestDividedComparison(t *testing.T) {
	wrong := 0
	d := &divided{fake: &fake{}, second: make(chan struct{})}
	r, log := runner(t, d.fake, "uniform", 1)
	d.wrong = func(c ep.Config) int {
		if c.Key() == r.Config(0).Key() {
			return 3
		}
		return 0
	}
	r.Backend = d
	if _, err := r.Measure(t.Context(), record.StageScreen, live, 2); err != nil {
		t.Fatal(err)
	}
	for i, line := range log.lines {
		switch {
		case live[i] == 0 && line.Status == ep.Mismatch && len(line.Seconds) == 0:
			wrong++
		case line.Status != ep.OK || line.Checked != 16 || len(line.Seconds) != 2:
			t.Errorf("%+v", line)
		}
	}
	if d.late || wrong != 1 || d.verified != len(live) {
		t.Errorf("late %v, %d wrong, %d verified", d.late, wrong, d.verified)
	}
}
