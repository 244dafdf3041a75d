package drive

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
)

func inPython(t *testing.T, program string) []byte {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	c := exec.Command(python, "-B", "-c", program)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return out
}

// TestShareInPython: share_of in Python equals shareOf.
func TestShareInPython(t *testing.T) {
	const program = `
import itertools, json, sys
sys.path.insert(0, "../../../native/python/workers")
from harness.beside import share_of
print(json.dumps([[x, share_of(*x)] for x in itertools.product((0.001, 0.02, 0.3, 0.5, 0.99, 1, 1.01, 7.5), (1, 4, 8, 12, 128), (1, 4), (1, 2))]))
`
	out := inPython(t, program)
	var all [][2][]float64
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 160 {
		t.Fatalf("%v, %d cases", err, len(all))
	}
	for _, c := range all {
		x := c[0]
		batch, launches := shareOf(x[0], int(x[1]), int(x[2]), int(x[3]))
		if float64(batch) != c[1][0] || float64(launches) != c[1][1] {
			t.Errorf("share %g, %g groups, %g launches, least %g: Go gives batch %d and %d launches, Python %v", x[0], x[1], x[2], x[3], batch, launches, c[1])
		}
	}
}

func TestFastestPlanInPython(t *testing.T) {
	const program = `
import itertools, json, sys
sys.path.insert(0, "../../../native/python/workers")
from harness.beside import TAKEN, fastest_plan, plan_beside
times = [list(x) for x in itertools.product((1.0,), (0.98, 0.995, 1.2), (0.97, 0.98, 1.0))]
print(json.dumps({"taken": TAKEN, "times": times, "best": [fastest_plan(x) for x in times], "beside": [[own, left, plan_beside(own, left)] for own in (0, 84, 116) for left in (0, 84, 100, 116)]}))
`
	out := inPython(t, program)
	var got struct {
		Taken, Best []int
		Times       [][]float64
		Beside      [][3]int
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Times) != 9 || len(got.Best) != 9 || len(got.Beside) != 12 {
		t.Fatalf("error %v; %d lists of times and %d plans", err, len(got.Times), len(got.Beside))
	}
	for _, c := range got.Beside {
		if want := planBeside(c[0], c[1]); c[2] != want {
			t.Errorf("if the fastest plan is for %d SMs and calls leave %d, Go takes the plan for %d SMs, and Python the plan for %d", c[0], c[1], want, c[2])
		}
	}
	if !slices.Equal(got.Taken, takenSMs) {
		t.Errorf("in Python, plans leave %v SMs to calls; in Go, they leave %v", got.Taken, takenSMs)
	}
	for i, times := range got.Times {
		if want := fastestPlan(times); got.Best[i] != want {
			t.Errorf("%v: plan %d, in Python %d", times, want, got.Best[i])
		}
	}
}

// TestChoosePlansInPython: choose_plans compares plans by their best round, where the slowest rank's time counts.
func TestChoosePlansInPython(t *testing.T) {
	const program = `
import sys, types, unittest.mock
sys.modules["torch"] = unittest.mock.MagicMock()
sys.path.insert(0, "../../../native/python/workers")
from harness.gpu_beside import GPUBeside
alone = {0: [[5, 3], [5, 4]], 116: [[2, 9], [5, 9]], 100: [[9, 1], [9, 2]]}  # by plan, rank and round
library = types.SimpleNamespace(
    warm=lambda product, taken: None,
    product_alone=lambda product, rounds: alone[product.own][0],
    ranks=types.SimpleNamespace(exchange=lambda mine: [mine, next(other for one, other in alone.values() if one == mine)]))
ours, theirs = types.SimpleNamespace(own=0, own_plans=[0, 116, 100]), types.SimpleNamespace()
GPUBeside.choose_plans(library, types.SimpleNamespace(product=ours, attention=theirs))
assert ours.own == 100 and not hasattr(theirs, "own"), (ours, theirs)
GPUBeside.choose_plans(library, types.SimpleNamespace(product=theirs, attention=None))
`
	inPython(t, program)
}
