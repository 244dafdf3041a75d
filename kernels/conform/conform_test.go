package conform

import (
	"slices"
	"testing"

	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
)

func TestCoveringIsComplete(t *testing.T) {
	sizes := []int{4, 3, 3, 2, 5}
	ok := func(p []int) bool { return p[0] != 0 || p[1] != 0 }
	for strength := 1; strength <= 3; strength++ {
		points := covering(sizes, strength, ok)
		seen := map[tuple]bool{}
		sets := axisSets(len(sizes), strength)
		for _, p := range points {
			if !ok(p) {
				t.Fatalf("point %v is not allowed", p)
			}
			for _, set := range sets {
				seen[tupleOf(p, set)] = true
			}
		}
		for _, want := range tuples(sizes, sets) {
			banned := want.axes[0] == 0 && want.axes[1] == 1 && want.values[0] == 0 && want.values[1] == 0
			if seen[want] == banned {
				t.Errorf("strength %d: %v occurs: %v", strength, want, seen[want])
			}
		}
		t.Logf("strength %d: %d points of 360", strength, len(points))
	}
}

func TestMatrixIsStable(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		for _, c := range Matrix(Default, AxesFor(b.Machine(), b.Kernels()), ep.Eager) {
			out = append(out, c.Name)
		}
		return out
	}
	if first := names(); !slices.Equal(first, names()) {
		t.Error("two calls give different cases")
	}
}

func TestMatrixReachesEveryValue(t *testing.T) {
	a := AxesFor(ep.Machine{}, cpu.Kernels())
	seen := map[string]bool{}
	for _, c := range Matrix(Quick, a, ep.Eager) {
		for _, tag := range c.Tags {
			seen[tag] = true
		}
	}
	for _, x := range a.list() {
		for _, v := range x.values {
			if !seen[x.name+"="+v] {
				t.Errorf("no case has %s=%s", x.name, v)
			}
		}
	}
}
