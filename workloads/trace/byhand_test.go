package trace

import (
	"slices"
	"strings"
	"testing"
)

// TestRanksAreJoinedByContent: the order of file names is not the order of ranks.
func TestRanksAreJoinedByContent(t *testing.T) {
	dir := t.TempDir()
	rank0 := copyFile(t, "megatron_router/router_trace_rank0.jsonl", dir, "b.jsonl")
	copyFile(t, "megatron_router/router_trace_rank1.jsonl", dir, "a.jsonl")
	joined, err := OpenAll([]string{dir}, Options{Layer: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Close()
	got := make([]int32, 4)
	if _, err := joined.Read(got, nil); err != nil {
		t.Fatal(err)
	}
	if want, _, err := readAll(t, rank0, Options{Layer: 2}); err != nil || !slices.Equal(got, want[:4]) {
		t.Errorf("the first token read is %v, the tokens of rank 0 are %v, %v", got, want, err)
	}
}

func TestMissingRanks(t *testing.T) {
	for _, c := range []struct{ have, want []int }{{[]int{3, 0}, []int{1, 2}}, {[]int{0, 1}, nil}, {nil, nil}, {[]int{2}, []int{0, 1}}} {
		if got := missing(c.have); !slices.Equal(got, c.want) {
			t.Errorf("ranks %v: %v are missing, want %v", c.have, got, c.want)
		}
	}
}

func TestScanByHand(t *testing.T) {
	s, err := scan(write(t, t.TempDir(), "t.csv", "0,1\n-1,1\n3,-1\n1,65535\n"), noLayer)
	if err != nil || s.Rows != 4 || s.Masked != 2 || s.TopK != 2 || len(s.Counts) != 65536 || s.Counts[0] != 1 || s.Counts[1] != 3 || s.Counts[2] != 0 || s.Counts[3] != 1 || s.Counts[65535] != 1 {
		t.Errorf("%d rows, %d masked, top-%d, counts %v, error %v", s.Rows, s.Masked, s.TopK, s.Counts[:min(5, len(s.Counts))], err)
	}
}

func TestCountsInLines(t *testing.T) {
	path := write(t, t.TempDir(), "c.csv", "layer_id,expert_id,count\n0,1,5\n1,0,7\n0,1,6\n1,1,2\n0,3,1\n")
	for layer, want := range map[int][]int64{0: {0, 11, 0, 1}, 1: {7, 2, 0, 0}} {
		if s, err := scan(path, Options{Layer: layer}); err != nil || !slices.Equal(s.Counts, want) {
			t.Errorf("layer %d: counts %v, error %v, want %v", layer, s.Counts, err, want)
		}
	}
	for layer, says := range map[int]string{2: "layer 2 is outside 0 to 1", -1: "2 layers: choose one"} {
		if _, err := Open(path, Options{Layer: layer}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("layer %d: %v", layer, err)
		}
	}
}

func TestFilesAreAddedUp(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a_0.csv", "expert_id,count\n0,5\n1,6\n")
	write(t, dir, "a_1.csv", "expert_id,count\n0,7\n1,1\n")
	if s, err := scan(dir, noLayer); err != nil || !slices.Equal(s.Counts, []int64{12, 7}) {
		t.Errorf("the sums are %v (%v), want 5 + 7 and 6 + 1", s.Counts, err)
	}
}

// TestFoldByHand: physical_to_logical_map has precedence over last_physical_to_logical_map.
func TestFoldByHand(t *testing.T) {
	counts, err := foldCounts(func() ([]int64, error) { return []int64{1, 2, 4, 0, 8}, nil }, "m", []int32{0, 1, 0, -1, 1})()
	if err != nil || !slices.Equal(counts, []int64{5, 10}) {
		t.Errorf("%v, %v", counts, err)
	}
	if _, err := foldCounts(func() ([]int64, error) { return []int64{1, 3}, nil }, "m", []int32{0, -1})(); err == nil || !strings.Contains(err.Error(), "physical expert 1 has 3 selections, but m gives it no logical expert") {
		t.Errorf("an empty slot with selections: %v", err)
	}
	ids := []int32{2, 1, -1, 0}
	read := func(dst []int32, _ []float32) (int, error) { return copy(dst, ids) / 2, nil }
	got := make([]int32, 4)
	if n, err := foldIDs(read, 2, "m", []int32{7, 5, 6})(got, nil); n != 2 || err != nil || !slices.Equal(got, []int32{6, 5, -1, 7}) {
		t.Errorf("ids %v in %d rows, error %v", got, n, err)
	}
	if _, err := foldIDs(read, 2, "m", []int32{7, 5})(got, nil); err == nil || !strings.Contains(err.Error(), "physical expert 2 is not among the 2 physical experts of m") {
		t.Errorf("%v", err)
	}
	path := write(t, t.TempDir(), "two.json", `{"expert_load": [[3, 4]], "last_physical_to_logical_map": [[0, 1]], "physical_to_logical_map": [[1, 0]]}`)
	if s, err := scan(path, noLayer); err != nil || !slices.Equal(s.Counts, []int64{4, 3}) {
		t.Errorf("with two maps: %v, %v", s.Counts, err)
	}
}
