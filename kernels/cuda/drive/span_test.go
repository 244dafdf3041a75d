package drive

import (
	"slices"
	"testing"
)

func TestSpans(t *testing.T) {
	const n, gap = 8, closeBytes
	for _, c := range []struct {
		offsets []int
		spans   []span
		places  []int
	}{
		{[]int{64}, []span{{64, 8, 0}}, []int{0}},
		{[]int{0, 8, 16}, []span{{0, 24, 0}}, []int{0, 8, 16}},
		{[]int{0, n + gap, 2*n + 2*gap + 1}, []span{{0, 2*n + gap, 0}, {2*n + 2*gap + 1, 8, 2*n + gap}}, []int{0, n + gap, 2*n + gap}},
		{[]int{40, 40, 44}, []span{{40, 12, 0}}, []int{0, 0, 4}},
		{[]int{40, 0, 8}, []span{{40, 8, 0}, {0, 16, 8}}, []int{0, 8, 16}},
	} {
		spans, places := spansOf(c.offsets, n)
		if !slices.Equal(spans, c.spans) || !slices.Equal(places, c.places) {
			t.Errorf("offsets %v: copies %v with pieces at %v, want %v and %v", c.offsets, spans, places, c.spans, c.places)
		}
	}
}
