package worker

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestRenew: another group of processes takes over, with the kernels and the machine of the
// first, and the first has ended.
func TestRenew(t *testing.T) {
	b, _, err := openToy(t, toyFile, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, c := toySession(t, b, ep.Dispatch)
		if r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || len(r.Seconds) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		before, restarts := b.proc, b.Restarts()
		if err := b.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b.proc == before || b.proc.cmd.Process.Pid == before.cmd.Process.Pid || b.Restarts() != restarts {
			t.Errorf("the process stayed, or the change counts as a restart: %d", b.Restarts())
		}
		select {
		case <-before.done:
		default:
			t.Error("the process before still runs")
		}
	}
}
