package conform

import (
	"slices"
	"testing"
)

func TestPartsTakeTurns(t *testing.T) {
	cases := []int{0, 1, 2, 3, 4, 5, 6}
	var all []int
	for part, want := range map[string][]int{"1/3": {0, 3, 6}, "2/3": {1, 4}, "3/3": {2, 5}} {
		got, err := Part(cases, part)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", part, got, err, want)
		}
		all = append(all, got...)
	}
	slices.Sort(all)
	if !slices.Equal(all, cases) {
		t.Errorf("the parts hold %v", all)
	}
}

func TestPartRefuses(t *testing.T) {
	for _, part := range []string{"", "1", "0/2", "3/2", "1/4", "-1/2", "1/2x", "01/2"} {
		if got, err := Part([]int{1, 2, 3}, part); err == nil {
			t.Errorf("%q gave %v", part, got)
		}
	}
}
