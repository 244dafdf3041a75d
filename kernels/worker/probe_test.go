package worker

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// TestProbesByOp: an activation has no probes, because its rows belong to experts.
func TestProbesByOp(t *testing.T) {
	for _, op := range ep.Ops() {
		w := &workloads.Workload{
			Problem: ep.Problem{Op: op, Ranks: 1, Experts: 2, TopK: 1},
			Ranks:   []workloads.Routing{{Tokens: 2, Experts: []int32{0, 1}}},
		}
		if n := len(chooseProbes(w)); (n > 0) != (op != ep.Activation) {
			t.Errorf("%s: %d probes", op, n)
		}
	}
}

// TestProbesAreDelivered: probes name only delivered rows, each once. Rank 0 has no tokens. Rank 1 has two masked
// selections, and expert 0 is on rank 0.
func TestProbesAreDelivered(t *testing.T) {
	w := &workloads.Workload{
		Problem: ep.Problem{Ranks: 2, Experts: 4, TopK: 2},
		Ranks:   []workloads.Routing{{}, {Tokens: 2, Experts: []int32{-1, 3, 0, -1}}},
	}
	for _, c := range []struct {
		op   ep.Op
		skip bool
		want []Probe
	}{
		{ep.Dispatch, false, []Probe{{1, 0, 1}, {1, 1, 0}}},
		{ep.Dispatch, true, []Probe{{1, 0, 1}}},
		{ep.Combine, false, []Probe{{1, 0, -1}, {1, 1, -1}}},
		{ep.Pair, false, []Probe{{1, 0, -1}, {1, 1, -1}}},
	} {
		w.Problem.Op, w.Problem.SkipA2A = c.op, c.skip
		seen := map[Probe]bool{}
		for range 100 {
			got := chooseProbes(w)
			for i, p := range got {
				seen[p] = true
				if slices.Contains(got[:i], p) {
					t.Errorf("%s: %+v is probed twice", c.op, p)
				}
			}
		}
		for _, p := range c.want {
			if !seen[p] {
				t.Errorf("%s, skip_a2a %v: %+v is never probed", c.op, c.skip, p)
			}
			delete(seen, p)
		}
		if len(seen) > 0 {
			t.Errorf("%s, skip_a2a %v: no call returns %v", c.op, c.skip, seen)
		}
	}
	w.Ranks[1] = workloads.Routing{Tokens: 64, Experts: slices.Repeat([]int32{0, 1}, 64)}
	if w.Problem.Op = ep.Combine; len(chooseProbes(w)) != probesPerVerify {
		t.Errorf("%d probes of 64 tokens, want %d", len(chooseProbes(w)), probesPerVerify)
	}
	w.Ranks = w.Ranks[:1]
	if got := chooseProbes(w); got != nil {
		t.Errorf("probes %v without any token", got)
	}
}

// casts lists FP8 casts of libraries: the quotient that is rounded, and the group's scale.
var casts = map[string]func(x, amax float32) (quotient, scale float32){
	"ours":                   func(x, amax float32) (float32, float32) { return x / (amax / 448), amax / 448 },
	"DeepEP's low latency":   func(x, amax float32) (float32, float32) { return x * (448 / amax), amax * inverse448 },
	"PyTorch's, by a number": func(x, amax float32) (float32, float32) { return x / (amax * inverse448), amax * inverse448 },
}

const inverse448 = float32(1. / 448)

// middle names an element of a token of fp8Pairs: 1.453125, in a group with the maximum 1.9375. Divided by the group's
// scale, this element lies exactly between two e4m3 codes. DeepEP's low-latency kernel rounds it down.
var middle = struct{ rank, token, column int }{1, 83, 6487}

func fp8Pairs(t *testing.T, topK int) *workloads.Workload {
	t.Helper()
	w, err := workloads.Draw("uniform", ep.Problem{Op: ep.Pair, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: topK,
		Tokens: 128, MaxTokens: 128, Dispatch: ep.FP8, Combine: ep.BF16, Layout: ep.LayoutMasked}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func castRow(w *workloads.Workload, rank, token int, cast func(x, amax float32) (float32, float32)) (codes []byte, scales []float32) {
	bits := make([]uint16, w.Problem.Hidden)
	w.Token(rank, token, bits)
	for group := range slices.Chunk(bits, 128) {
		var amax, scale float32
		for _, b := range group {
			amax = max(amax, float32(math.Abs(float64(ref.BF16ToFloat(b)))))
		}
		for _, b := range group {
			var q float32
			q, scale = cast(ref.BF16ToFloat(b), amax)
			codes = append(codes, ref.E4M3(q))
		}
		scales = append(scales, scale)
	}
	return codes, scales
}

// combined returns the BF16 row that a library combines.
func combined(w *workloads.Workload, rank, token int, codes []byte, scales []float32) []byte {
	var out []byte
	k := w.Problem.TopK
	for c, code := range codes {
		var sum float32
		for i := token * k; i < (token+1)*k; i++ {
			x := ref.E4M3ToFloat(code) * scales[c/128]
			y := ref.BF16ToFloat(ref.BF16(x * ref.Gain(int(w.Ranks[rank].Experts[i]))))
			sum += float32(w.Ranks[rank].Weights[i] * y)
		}
		out = binary.LittleEndian.AppendUint16(out, ref.BF16(sum))
	}
	return out
}

// TestProbesOfOtherCasts: if an element lies exactly between two codes, both codes are right.
func TestProbesOfOtherCasts(t *testing.T) {
	for _, topK := range []int{1, 8} {
		w := fp8Pairs(t, topK)
		o := ref.New(w, 1)
		for name, cast := range casts {
			for token := middle.token - 15; token <= middle.token; token++ {
				codes, scales := castRow(w, middle.rank, token, cast)
				row := combined(w, middle.rank, token, codes, scales)
				if why := checkProbe(o, w, Probe{Rank: middle.rank, Token: token, K: -1}, ref.BF16Partial, row); why != "" {
					t.Errorf("top %d, cast %s, token %d: %s", topK, name, token, why)
				}
			}
		}
	}
}

// TestProbesOneCodeOff: a code next to the right one is found to be wrong, unless the element lies between both codes.
func TestProbesOneCodeOff(t *testing.T) {
	w := fp8Pairs(t, 8)
	o := ref.New(w, 1)
	right, scales := castRow(w, middle.rank, middle.token, casts["ours"])
	other, _ := castRow(w, middle.rank, middle.token, casts["DeepEP's low latency"])
	if other[middle.column] != right[middle.column]-1 {
		t.Fatalf("codes %#02x and %#02x: column %d is not in the middle", right[middle.column], other[middle.column], middle.column)
	}
	for column := middle.column - 20; column <= middle.column+20; column++ {
		for _, off := range []byte{1, 0xff} {
			codes := slices.Clone(right)
			if codes[column] += off; codes[column] == other[column] {
				continue
			}
			row := combined(w, middle.rank, middle.token, codes, scales)
			why := checkProbe(o, w, Probe{Rank: middle.rank, Token: middle.token, K: -1}, ref.BF16Partial, row)
			if !strings.HasPrefix(why, fmt.Sprintf("column %d is ", column)) {
				t.Errorf("column %d has code %#02x, not %#02x: %q", column, codes[column], right[column], why)
			}
		}
	}
}

func TestBlamedProbes(t *testing.T) {
	w := fp8Pairs(t, 8)
	s := &session{workload: w, oracle: ref.New(w, 1)}
	probes := []Probe{{Rank: 0, Token: 0, K: -1}, {Rank: 1, Token: 5, K: -1}}
	v := s.checkProbes(probes, make([]ProbeRow, 2), ref.BF16Partial, kernels.Comparison{Rows: 576})
	if v.Wrong != 2 || v.Rows != 576 || !strings.HasSuffix(v.Detail, "(2 of 2 probed rows are wrong; the worker reported 0)") {
		t.Errorf("%+v", v)
	}
}

// TestProbesWithoutRows: a wrong number of rows is an error. The count of rows is at least the count of wrong rows.
func TestProbesWithoutRows(t *testing.T) {
	w := fp8Pairs(t, 8)
	s := &session{workload: w, oracle: ref.New(w, 1)}
	probes := []Probe{{Rank: 0, Token: 0, K: -1}, {Rank: 1, Token: 5, K: -1}}
	for _, rows := range []int{0, 1, 3} {
		v := s.checkProbes(probes, make([]ProbeRow, rows), ref.BF16Partial, kernels.Comparison{})
		if want := fmt.Sprintf("2 rows were probed, but the worker returned %d", rows); v.Wrong != 1 || v.Rows != 1 || v.Detail != want {
			t.Errorf("%d rows: %+v", rows, v)
		}
	}
	honest := kernels.Comparison{Rows: 576, Wrong: 2, Detail: "row 3"}
	if v := s.checkProbes(nil, nil, ref.BF16Partial, honest); v != honest {
		t.Errorf("without probes: %+v, want the worker's own comparison", v)
	}
}

// TestWeightedRows: DeepEP V2 on 2 H100 gave these sums. Its experts round weighted rows to BF16, so its sums lie
// outside the bounds of BF16Partial.
func TestWeightedRows(t *testing.T) {
	for _, c := range []struct {
		tokens, rank, token, column int
		got                         float64
	}{{8, 1, 5, 5632, 0.5}, {8, 0, 6, 1179, -1}, {8192, 0, 811, 129, -0.25390625}} {
		w, err := workloads.Draw("uniform", ep.Problem{Op: ep.Pair, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
			Tokens: c.tokens, MaxTokens: 8192, Dispatch: ep.FP8, Combine: ep.BF16, Layout: "expert:128"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		o := ref.New(w, 1)
		right := func(summed ref.Partial) bool {
			s := o.CombineRow(c.rank, c.token, summed)
			return math.Abs(c.got-s.Exact[c.column]) <= s.Bound[c.column]
		}
		if !right(ref.Weighted) || right(ref.BF16Partial) {
			t.Errorf("%+v: right as a sum of weighted rows %v, want true; as a gated sum %v, want false", c, right(ref.Weighted), right(ref.BF16Partial))
		}
	}
}

func TestSummedAs(t *testing.T) {
	b := &Backend{kernels: []kernels.Kernel{{Name: "plain", Op: ep.Combine, Work: ep.Work{Sum: "plain"}}, {Name: "gated", Op: ep.Combine, Work: ep.Work{Sum: "gated"}}}}
	for _, c := range []struct {
		op     ep.Op
		kernel string
		want   ref.Partial
	}{{ep.Combine, "plain", ref.Weighted}, {ep.Combine, "gated", ref.BF16Partial}, {ep.Pair, "d+plain", ref.Weighted}, {ep.Pair, "d+gated", ref.BF16Partial}, {ep.Layer, "d", ref.BF16Partial}} {
		s := &session{backend: b, workload: &workloads.Workload{Problem: ep.Problem{Op: c.op}}}
		if got := s.summedAs(ep.Config{Kernel: c.kernel}); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.op, c.kernel, got, c.want)
		}
	}
}
