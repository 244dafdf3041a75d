package pack

import (
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// TestAreasAreShared: regions of one area share memory, also across states. If calls may have different dtypes
// (AnyDType), all regions with one name share memory.
func TestAreasAreShared(t *testing.T) {
	b := &builder{place: map[string]uint32{}, groups: map[string]int{}}
	ll, masked := declare.CallSpec{State: "ll"}, declare.CallSpec{State: "masked", AnyDType: true}
	for i, c := range []struct {
		call   declare.CallSpec
		region declare.Region
		want   uint16
	}{
		{ll, declare.Region{Name: "slots", Bytes: 4096}, 0},
		{ll, declare.Region{Name: "return", Bytes: 4096, Area: declare.AreaReturn}, 1},
		{ll, declare.Region{Name: "started", Bytes: 8, Area: declare.AreaStarted}, 2},
		{declare.CallSpec{State: "final"}, declare.Region{Name: "polled", Bytes: 512, Area: declare.AreaReturn}, 1},
		{masked, declare.Region{Name: "slots", Bytes: 2 * heapAlign, Halves: true}, 3},
		{masked, declare.Region{Name: "slots", Bytes: 4 * heapAlign, Halves: true}, 3},
		{masked, declare.Region{Name: "heads", Bytes: 100}, 4},
		{masked, declare.Region{Name: "slots", Bytes: 3 * heapAlign, Halves: true}, 0},
		{declare.CallSpec{State: "rank", AnyDType: true}, declare.Region{Name: "slots", Bytes: 100}, 5},
	} {
		if got := b.area(c.call, c.region); got != c.want {
			t.Errorf("case %d: region %s of state %s is in area %d, want %d", i, c.region.Name, c.call.State, got, c.want)
		}
	}
}

// TestNumbersAreShared: calls that may follow each other in one memory share call numbers.
func TestNumbersAreShared(t *testing.T) {
	b := &builder{place: map[string]uint32{}, groups: map[string]int{}}
	back := []declare.Region{{Name: "slots"}, {Name: "return", Area: declare.AreaReturn}}
	for _, c := range []struct {
		call declare.CallSpec
		want [2]uint16
	}{
		{declare.CallSpec{State: "ep", Regions: back[:1]}, [2]uint16{}},
		{declare.CallSpec{State: "masked", AnyDType: true}, [2]uint16{1, 2}},
		{declare.CallSpec{State: "masked", AnyDType: true}, [2]uint16{1, 2}},
		{declare.CallSpec{State: "rank", AnyDType: true}, [2]uint16{3, 4}},
		{declare.CallSpec{State: "ll", Regions: back}, [2]uint16{0, 5}},
		{declare.CallSpec{State: "final", Regions: back}, [2]uint16{0, 5}},
	} {
		if got := b.numbers(c.call); got != c.want {
			t.Errorf("%s: %v, want %v", c.call.State, got, c.want)
		}
	}
}
