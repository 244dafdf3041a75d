package trace

import (
	"slices"
	"strings"
	"testing"
)

// TestWritten reads recordings of the engines' own recorders; docs/importers.md names their sources. In
// SGLang's files expert 0 has six replicas, and experts 1 to 3 have two.
func TestWritten(t *testing.T) {
	for _, c := range []struct {
		path  string
		layer int
		want  []int64
	}{
		{"expert_distribution_recorder_1700000000.5_0.pt", 0, []int64{12, 7, 8, 5, 5, 2, 3, 1, 1, 2, 8, 3, 2, 2, 3, 0}},
		{"expert_distribution_recorder_1700000000.5_1.pt", 2, []int64{10, 9, 9, 5, 4, 7, 5, 5, 1, 1, 0, 1, 1, 1, 3, 2}},
		{"expert_distribution_recorder_1700000000.5_*.pt", 1, []int64{18, 21, 12, 10, 9, 9, 4, 5, 5, 5, 5, 3, 3, 9, 7, 3}},
		{"expert_distribution_recorder_1700000001.5.pt", 0, []int64{10, 8, 7, 6, 7, 4, 4, 2, 4, 2, 1, 4, 1, 1, 2, 1}},
		{"expert_distribution_recorder_1700000001.5.pt", 2, []int64{9, 7, 9, 7, 6, 3, 1, 3, 3, 2, 1, 7, 0, 3, 1, 2}},
		{"expert_distribution_recorder_1700000002.5_0.pt", 1, []int64{12, 7, 6, 5, 0, 5, 4, 1, 7, 3, 1, 3, 3, 3, 1, 3}},
		{"moe_load_[01].npy", 1, []int64{163, 148, 147, 154, 129, 113, 119, 88, 89, 88, 86, 65, 76, 56, 42, 37}},
		{"moe_load_steps.npy", 2, []int64{172, 149, 135, 137, 141, 125, 106, 88, 100, 81, 76, 69, 63, 65, 45, 48}},
		{"trtllm_statistic", 3, []int64{173, 159, 151, 166, 142, 120, 116, 112, 97, 87, 71, 77, 73, 68, 45, 55}},
		{"trtllm_statistic", 4, []int64{190, 155, 165, 151, 137, 141, 125, 100, 97, 86, 85, 84, 64, 55, 49, 28}},
	} {
		s, err := scan(golden+"written/"+c.path, Options{Layer: c.layer})
		got := slices.Clone(s.Counts)
		for len(got) < len(c.want) {
			got = append(got, 0)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, layer %d: %v, %v\nwant %v", c.path, c.layer, s.Counts, err, c.want)
		}
	}
	if _, err := scan(golden+"written/trtllm_statistic", Options{Layer: 2}); err == nil || !strings.Contains(err.Error(), "nothing was recorded in layer 2; layers 3 to 4 have counts") {
		t.Errorf("%v", err)
	}
}
