package trace

import (
	"slices"
	"strings"
	"testing"
)

const cases = "../../testdata/cases/"

func maxOverMean(counts []int64) float64 {
	var sum int64
	for _, n := range counts {
		sum += n
	}
	return float64(slices.Max(counts)) * float64(len(counts)) / float64(sum)
}

// TestVLLMWindow compares with values of NumPy's add.at.
func TestVLLMWindow(t *testing.T) {
	for layer, want := range []float64{1.103125, 1.1203125, 1.1078125} {
		s, err := scan(cases+"11-vllm-physical-window/vllm_window.npz", Options{Layer: layer})
		if err != nil || len(s.Counts) != 256 || maxOverMean(s.Counts) != want {
			t.Errorf("layer %d: %d experts, max/mean %v, %v; want 256 and %v", layer, len(s.Counts), maxOverMean(s.Counts), err, want)
		}
	}
}

func TestEmptyLayer(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ path, want string }{
		{cases + "12-layer-without-counts/stat.pt", "nothing was recorded in layer 0; layers 3 to 5 have counts"},
		{write(t, dir, "a.csv", "layer_id,expert_id,count\n0,0,0\n0,1,0\n2,0,3\n4,1,5\n"), "nothing was recorded in layer 0; layers 2, 4 have counts"},
		{write(t, dir, "a.json", `{"logical_count": [[0, 0], [1, 0]]}`), "nothing was recorded in layer 0; layer 1 has counts"},
		{write(t, dir, "a.npy", npy("|u1", "3, 40")+strings.Repeat("\x00", 80)+strings.Repeat("\x01", 40)), "nothing was recorded in layer 0; layer 2 has counts"},
		{write(t, dir, "b.npy", npy("|u1", "2, 40")+strings.Repeat("\x00", 80)), "nothing was recorded in any layer"},
		{golden + "trtllm_statistic", "nothing was recorded in layer 0; layers 3 to 4 have counts"},
	} {
		if _, err := scan(c.path, Options{Layer: 0}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if _, err := scan(write(t, dir, "c.npy", npy("|u1", "40")+strings.Repeat("\x00", 40)), noLayer); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("one layer without counts: %v", err)
	}
}
