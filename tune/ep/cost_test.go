package ep

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestCostOrder(t *testing.T) {
	ascending := []Cost{{1, 9, 9}, {2, 1, 9}, {2, 3, 0}, {2, 3, 1}}
	for i, c := range ascending {
		for j, d := range ascending {
			if got := c.Compare(d); got != sign(i-j) {
				t.Errorf("%+v against %+v: %d, want %d", c, d, got, sign(i-j))
			}
		}
	}
	shuffled := []Cost{ascending[2], ascending[0], ascending[3], ascending[1]}
	slices.SortFunc(shuffled, Cost.Compare)
	if !slices.Equal(shuffled, ascending) {
		t.Errorf("sorted: %+v", shuffled)
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

func TestCostJSON(t *testing.T) {
	b, err := json.Marshal(Cost{SMs: 32, Threads: 512, Bytes: 4096})
	if err != nil || string(b) != `{"sms":32,"threads":512,"bytes":4096}` {
		t.Errorf("%s, %v", b, err)
	}
}
