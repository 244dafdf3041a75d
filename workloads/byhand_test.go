package workloads

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads/trace"
)

// byHand is a routing of 7 tokens whose counts were worked out by hand.
func byHand() *Workload {
	return &Workload{
		Problem: ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 3, Nodes: 1, Hidden: 128, Experts: 6, TopK: 2, Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16},
		Ranks: []Routing{
			{Tokens: 4, Experts: []int32{0, 1, 2, 3, 1, 2, -1, -1}},
			{Tokens: 2, Experts: []int32{4, 5, 4, 0}},
			{Tokens: 1, Experts: []int32{5, -1}},
		},
	}
}

func TestCountsByHand(t *testing.T) {
	w := byHand()
	if got, want := w.Messages(Direct), (Matrix{{3, 3, 0}, {1, 0, 3}, {0, 0, 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("direct %v, want %v", got, want)
	}
	if got, want := w.Messages(Dedup), (Matrix{{2, 2, 0}, {1, 0, 2}, {0, 0, 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("dedup %v, want %v", got, want)
	}
	if got := w.ExpertCounts(1); !slices.Equal(got, []int64{1, 0, 0, 0, 2, 1}) {
		t.Errorf("rank 1 sends %v", got)
	}
	if got := w.TotalCounts(); !slices.Equal(got, []int64{2, 2, 2, 1, 2, 2}) {
		t.Errorf("experts receive %v", got)
	}
	if got := rankSums(w.TotalCounts(), 3); !slices.Equal(got, []int64{4, 3, 4}) {
		t.Errorf("ranks receive %v", got)
	}
	s := w.Stats()
	for name, x := range map[string][2]float64{
		"tokens": {float64(s.Tokens), 7}, "selections": {float64(s.Selections), 11}, "masked": {float64(s.Masked), 3},
		"max_mean_expert": {s.MaxMeanExpert, 2 * 6 / 11.0}, "max_mean_rank": {s.MaxMeanRank, 4 * 3 / 11.0},
		"max_mean_pair": {s.MaxMeanPair, 2 * 18 / 11.0}, "distinct_ranks": {s.DistinctRanks, 8 / 6.0}, "local_share": {s.LocalShare, 4 / 11.0},
	} {
		if !(math.Abs(x[0]-x[1]) <= 1e-12) {
			t.Errorf("%s is %g, want %g", name, x[0], x[1])
		}
	}
}

func TestBusiestByHand(t *testing.T) {
	for _, c := range []struct {
		m    Matrix
		want int64
	}{{Matrix{{9, 1, 1}, {0, 9, 2}, {0, 0, 9}}, 3}, {Matrix{{9, 3, 3}, {0, 9, 0}, {0, 0, 9}}, 6}, {Matrix{{9, 0, 0}, {3, 9, 0}, {3, 0, 9}}, 6}, {Matrix{{9}}, 0}} {
		if got := c.m.Busiest(); got != c.want {
			t.Errorf("messages %v: the busiest rank has %d, want %d", c.m, got, c.want)
		}
	}
	if got := (Matrix{{1, 2}, {3, 4}}).Bytes(10); !reflect.DeepEqual(got, Matrix{{10, 20}, {30, 40}}) {
		t.Errorf("bytes %v", got)
	}
	if got := WireLimit(2e9, 4); got != 0.5 {
		t.Errorf("2 GB at 4 GB/s take %g s", got)
	}
}

// TestMeasuresByHand: the Gini coefficient is 2 x (1x1 + 2x2 + 3x3 + 4x4 + 5x10) / (5 x 20) - (5 +
// 1) / 5 = 0.4.
func TestMeasuresByHand(t *testing.T) {
	load, even, none := []float64{3, 10, 1, 4, 2}, []float64{2, 2, 2, 2}, []float64{0, 0, 0, 0}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"max/mean", maxMean(load), 2.5}, {"top20", top20(load), 0.5}, {"gini", gini(load), 0.4}, {"cv", variation(load), math.Sqrt(0.625)},
		{"entropy", entropy([]float64{1, 2, 1}), 1.5 * math.Ln2}, {"top20 of three", top20([]float64{1, 2, 1}), 0.5},
		{"max/mean of even loads", maxMean(even), 1}, {"gini of even loads", gini(even), 0}, {"cv of even loads", variation(even), 0}, {"entropy of even loads", entropy(even), math.Log(4)},
		{"max/mean of nothing", maxMean(none), 1}, {"gini of nothing", gini(none), 0}, {"cv of nothing", variation(none), 0}, {"entropy of nothing", entropy(none), math.Log(4)}, {"top20 of nothing", top20(none), 0.2},
		{"gini of one", gini([]float64{0, 0, 0, 8}), 0.75}, {"entropy of one", entropy([]float64{0, 0, 8}), 0},
	} {
		if !(math.Abs(c.got-c.want) <= 1e-9) {
			t.Errorf("%s: %g, want %g", c.name, c.got, c.want)
		}
	}
}

func TestCopiesByHand(t *testing.T) {
	blocks, err := InBlocks(6, 3)
	if err != nil {
		t.Fatal(err)
	}
	swapped := &Placement{Ranks: 3, Slots: [][]int32{{2}, {3}, {0}, {1}, {4}, {5}}, next: make([]int, 6)}
	if n := swapped.Copies(blocks); n != 2 {
		t.Errorf("%d copies, want 2", n)
	}
	l := newPlacedLoadOver(blocks, 1)
	l.BetweenRanks = [][]int64{{50, 1, 2}, {3, 70, 0}, {0, 6, 90}}
	if got := l.MaxMeanPair(); got != 3 {
		t.Errorf("the largest pair divided by the mean is %g, want 6 / 2", got)
	}
	if got := (&PlacedLoad{BetweenRanks: [][]int64{{5}}}).MaxMeanPair(); got != 1 {
		t.Errorf("with one rank, which has no pairs, the ratio is %g, want 1", got)
	}
}

// TestJudgeByHand: expert 0 gets both redundant slots, so it has three copies on two ranks.
func TestJudgeByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.npy")
	w, err := trace.Create(path, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]int32{0, 0, 0, 0, 0, 0, 0, 1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	open := func() (*trace.Reader, error) { return trace.Open(path, trace.Options{Layer: -1}) }
	r, err := JudgeBalance(open, BalanceOptions{Ranks: 2, Redundant: 2, Windows: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []BalanceWindow{{2, 2, 1}, {4, 1, 1}}; !slices.Equal(r.Windows, want) {
		t.Errorf("windows %v, want %v", r.Windows, want)
	}
	if r.Planned != 4 || r.Judged != 4 || r.Experts != 2 || r.TopK != 1 || r.Before.Busiest() != 3 || r.After.Busiest() != 2 {
		t.Errorf("%+v; the busiest rank has %d selections before and %d after", r, r.Before.Busiest(), r.After.Busiest())
	}
	if want := [][]int64{{2, 0}, {1, 1}}; !reflect.DeepEqual(r.Before.BetweenRanks, want) {
		t.Errorf("pairs %v, want %v", r.Before.BetweenRanks, want)
	}
	if r.Copies != 1 {
		t.Errorf("%d copies, want 1: rank 1 fetches expert 0", r.Copies)
	}
}
