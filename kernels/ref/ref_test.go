package ref

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// tiny returns a workload of two ranks. Rank 0 has 3 tokens, and rank 1 has 1 token.
func tiny(change func(*ep.Problem)) *workloads.Workload {
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 128, Experts: 4, TopK: 2,
		Tokens: 3, MaxTokens: 3, Dispatch: ep.BF16, Combine: ep.BF16}
	if change != nil {
		change(&p)
	}
	return &workloads.Workload{Problem: p, Seed: 9, Ranks: []workloads.Routing{
		{Tokens: 3, Experts: []int32{0, 2, 3, -1, 2, 0}, Weights: []float32{0.75, 0.25, 1, 0, 0.5, 0.5}},
		{Tokens: 1, Experts: []int32{0, 1}, Weights: []float32{0.6, 0.4}},
	}}
}

func TestDispatchByHand(t *testing.T) {
	type rows = [][]Item
	for _, c := range []struct {
		name    string
		change  func(*ep.Problem)
		rank    int
		offsets []uint32
		items   []rows
	}{
		{"plain", nil, 0, []uint32{0, 3, 4}, []rows{{{{0, 0}, {2, 1}}, {{0, 0}}}, {nil, {{0, 1}}}}},
		{"other rank", nil, 1, []uint32{0, 2, 3}, []rows{{{{0, 1}, {2, 0}}, nil}, {{{1, 0}}, nil}}},
		{"fp8 pads groups to four rows", func(p *ep.Problem) { p.Dispatch = ep.FP8 }, 0,
			[]uint32{0, 4, 8}, []rows{{{{0, 0}, {2, 1}}, {{0, 0}}}, {nil, {{0, 1}}}}},
		{"shared expert first", func(p *ep.Problem) { p.SharedExpert = true }, 1, []uint32{0, 1, 3, 4},
			[]rows{{{{0, -1}}}, {{{0, 1}, {2, 0}}, nil}, {{{1, 0}}, nil}}},
		{"skip_a2a keeps the local share of rank 0's batch", func(p *ep.Problem) { p.SkipA2A, p.SharedExpert = true, true }, 1,
			[]uint32{0, 1, 3, 4}, []rows{{{{2, -1}}}, {{{0, 1}, {2, 0}}}, {{{1, 0}}}}},
	} {
		d := New(tiny(c.change), 1).Dispatch(c.rank)
		var items []rows
		for _, g := range d.Groups {
			items = append(items, g.Items)
		}
		if !slices.Equal(d.RowOffsets, c.offsets) || !reflect.DeepEqual(items, c.items) {
			t.Errorf("%s: offsets %v items %v, want %v %v", c.name, d.RowOffsets, items, c.offsets, c.items)
		}
	}
}

func TestScaleOffsetsStartGroupsOnBlocks(t *testing.T) {
	groups := []Group{{Items: [][]Item{make([]Item, 130)}}, {Items: [][]Item{nil}}, {Items: [][]Item{make([]Item, 5)}}, {Items: [][]Item{make([]Item, 1)}}}
	d := packGroups(groups, 1)
	for i, first := range []uint32{0, 2, 2, 3} {
		if got := d.RowOffsets[i]/128 + d.ScaleOffsets[i]; got != first {
			t.Errorf("group %d starts in block %d, want %d", i, got, first)
		}
	}
}

func TestCombineByHand(t *testing.T) {
	w := tiny(nil)
	o := New(w, 1)
	x := make([]uint16, 128)
	w.Token(0, 0, x)
	s := o.CombineRow(0, 0, NoPartial)
	// Expert 0 (gain 0.5) has weight 0.75. Expert 2 (gain 0.5 + 2/64) has weight 0.25.
	for c, b := range x {
		v := BF16ToFloat(b)
		a, z := BF16ToFloat(BF16(v*0.5)), BF16ToFloat(BF16(v*(0.5+2./64)))
		if want := BF16(0.75*a + 0.25*z); s.Want[c] != want {
			t.Fatalf("column %d: %#x, want %#x", c, s.Want[c], want)
		}
	}
}

func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := tiny(func(p *ep.Problem) {
			p.SharedExpert = rapid.Bool().Draw(t, "shared")
			p.Dispatch = rapid.SampledFrom(ep.DTypes()).Draw(t, "dtype")
			p.Experts, p.TopK = 16, 4
		})
		w.Seed = rapid.Uint64().Draw(t, "seed")
		ids := rapid.Permutation([]int32{0, 3, 5, 7, 8, 10, 12, 15}).Draw(t, "ids")
		gates := rapid.SliceOfN(rapid.Float32Range(-2, 2), 4, 4).Draw(t, "gates")
		w.Ranks[0] = workloads.Routing{Tokens: 1, Experts: ids[:4], Weights: gates}
		o := New(w, 1)
		plain, reduced, weighted := o.CombineRow(0, 0, NoPartial), o.CombineRow(0, 0, BF16Partial), o.CombineRow(0, 0, Weighted)
		for c := range plain.Exact {
			for name, s := range map[string]Sum{"in order": plain, "by rank": reduced, "of weighted rows": weighted} {
				if d := math.Abs(float64(BF16ToFloat(s.Want[c])) - s.Exact[c]); d > s.Bound[c] {
					t.Fatalf("%s column %d is %g off, bound %g", name, c, d, s.Bound[c])
				}
			}
			if plain.Bound[c] > reduced.Bound[c] {
				t.Fatalf("column %d: more roundings have the smaller bound", c)
			}
		}
	})
}

func faithful(o *Oracle, rank int) Output {
	p, l, d := o.w.Problem, o.Encoding(), o.Dispatch(rank)
	n := dtype.MaxRows(p)
	buf := make([]byte, n*l.Payload)
	out := Output{
		RowOffsets: slices.Clone(d.RowOffsets), SrcInfo: make([]int32, 2*n), ScaleOffsets: slices.Clone(d.ScaleOffsets),
		MaxRows: n, Scales: make([]byte, dtype.OutputScaleBytes(l, dtype.Groups(p), n)), Payload: Flat(buf, l.Payload),
		Experts: make([]int32, n*p.TopK), Weights: make([]float32, n*p.TopK),
	}
	for i, g := range d.Groups {
		out.ExpertIDs = append(out.ExpertIDs, int32(i))
		row, inGroup := d.First[i], 0
		for s, items := range g.Items {
			out.Ranges = append(out.Ranges, uint64(inGroup)<<32|uint64(len(items)))
			for _, it := range items {
				q := o.Token(g.Sources[s], it.Token)
				copy(buf[row*l.Payload:], q.Payload)
				for c := range l.Scales {
					at := 4 * dtype.FP8Scale(p, n, row, c)
					if p.Dispatch != ep.FP8 {
						at = ScaleAt(l, c, row, inGroup, scaleBlock(d, i), n)
					}
					copy(out.Scales[at:], q.Scales[c*l.ScaleBytes:(c+1)*l.ScaleBytes])
				}
				second := it.K
				if p.Layout.ByRank() {
					second = g.Sources[s]
					out.lay(o, rank, row, second, it.Token)
				}
				out.SrcInfo[2*row], out.SrcInfo[2*row+1] = int32(it.Token), int32(second)
				row, inGroup = row+1, inGroup+1
			}
		}
	}
	return out
}

func TestFaithfulOutputsPass(t *testing.T) {
	for _, f := range ep.DTypes() {
		for _, shared := range []bool{false, true} {
			o := New(tiny(func(p *ep.Problem) { p.Dispatch, p.SharedExpert = f, shared }), 1)
			for rank := range 2 {
				v := o.CheckDispatch(rank, faithful(o, rank), Compare{Ordered: true})
				if !v.OK() || v.Rows == 0 || v.MaxErr != 0 {
					t.Errorf("%s shared %v rank %d: %+v", f, shared, rank, v)
				}
			}
		}
	}
}

func TestDamageIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*Output)
		says   string
	}{
		"offset":         {func(o *Output) { o.RowOffsets[1]++ }, "row_offsets[1]: want 4, got 5"},
		"short offsets":  {func(o *Output) { o.RowOffsets = o.RowOffsets[:2] }, "row_offsets: 2 entries, want 3"},
		"expert id":      {func(o *Output) { o.ExpertIDs[1] = 7 }, "expert_ids[1]: want 1, got 7"},
		"short src_info": {func(o *Output) { o.SrcInfo = o.SrcInfo[:6] }, "src_info: 3 rows, want 8"},
		"scale offset":   {func(o *Output) { o.ScaleOffsets[1] = 9 }, "scale_offsets[1]"},
		"row twice":      {func(o *Output) { o.SrcInfo[2], o.SrcInfo[3] = 0, 0 }, "row 1 (expert 0, source 0): src_info says token 0 k 0"},
		"row swapped":    {func(o *Output) { o.SrcInfo[0], o.SrcInfo[1], o.SrcInfo[2], o.SrcInfo[3] = 2, 1, 0, 0 }, "row 0 (expert 0, source 0 token 2 k 1): scale 0"},
		"foreign token":  {func(o *Output) { o.SrcInfo[4] = 2 }, "row 2 (expert 0, source 1): src_info says token 2"},
		"element":        {func(o *Output) { o.Payload(2)[5] ^= 0x40 }, "row 2 (expert 0, source 1 token 0 k 0): column 5"},
		"scale":          {func(o *Output) { o.Scales[4*1+2] ^= 1 }, "row 1 (expert 0, source 0 token 2 k 1): scale 0"},
		"no scales":      {func(o *Output) { o.Scales = nil }, "payload and 0 scale bytes"},
		"no payload":     {func(o *Output) { o.Payload = func(int) []byte { return nil } }, "0 payload"},
	} {
		o := New(tiny(func(p *ep.Problem) { p.Dispatch = ep.FP8 }), 1)
		out := faithful(o, 0)
		c.damage(&out)
		v := o.CheckDispatch(0, out, Compare{})
		if v.OK() || !strings.Contains(v.Detail, c.says) || !strings.HasPrefix(v.Detail, "rank 0 ") {
			t.Errorf("%s: %+v does not say %q", name, v, c.says)
		}
	}
}

func TestOrderIsJudgedOnRequest(t *testing.T) {
	o := New(tiny(nil), 1)
	out := faithful(o, 0)
	a, b := slices.Clone(out.Payload(0)), slices.Clone(out.Payload(1))
	copy(out.Payload(0), b)
	copy(out.Payload(1), a)
	out.SrcInfo[0], out.SrcInfo[1], out.SrcInfo[2], out.SrcInfo[3] = 2, 1, 0, 0
	if v := o.CheckDispatch(0, out, Compare{}); !v.OK() {
		t.Errorf("two rows of one segment swapped: %s", v.Detail)
	}
	if v := o.CheckDispatch(0, out, Compare{Ordered: true}); v.OK() {
		t.Error("swapped rows passed a comparison with Ordered")
	}
}

func TestOneCodeOff(t *testing.T) {
	for _, f := range []ep.DType{ep.FP8, ep.NVFP4, ep.MXFP4} {
		o := New(tiny(func(p *ep.Problem) { p.Dispatch = f }), 1)
		out := faithful(o, 0)
		out.Payload(0)[3] ^= 1
		if v := o.CheckDispatch(0, out, Compare{}); v.Wrong != 1 || v.MaxErr == 0 {
			t.Errorf("%s: %+v", f, v)
		}
	}
}

func TestCheckCombine(t *testing.T) {
	o := New(tiny(nil), 1)
	rows := make([][]uint16, 3)
	for i := range rows {
		rows[i] = o.CombineRow(0, i, NoPartial).Want
	}
	got := func(i int) []uint16 { return rows[i] }
	for _, c := range []Compare{{}, {Bits: true}, {Partial: BF16Partial}, {MaxRows: 2}} {
		if v := o.CheckCombine(0, got, c); !v.OK() || v.Rows == 0 {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	rows[1][17] ^= 1
	if v := o.CheckCombine(0, got, Compare{Bits: true}); v.OK() || !strings.Contains(v.Detail, "token 1 column 17") {
		t.Errorf("a bit off: %+v", v)
	}
	rows[1][17] += 5
	if v := o.CheckCombine(0, got, Compare{}); v.Wrong != 1 || !strings.Contains(v.Detail, "token 1 column 17") {
		t.Errorf("five units off: %+v", v)
	}
	rows[1][17] = 0x7fc0
	if v := o.CheckCombine(0, got, Compare{}); v.OK() || math.IsNaN(v.MaxErr) || math.IsInf(v.MaxErr, 0) {
		t.Errorf("NaN: %+v", v)
	}
	if v := o.CheckCombine(0, func(int) []uint16 { return nil }, Compare{}); v.OK() {
		t.Error("missing tokens passed")
	}
}

func TestPickerSpreads(t *testing.T) {
	for _, c := range []struct{ total, limit, want int }{{10, 0, 10}, {10, 20, 10}, {1000, 7, 7}, {1001, 100, 100}, {5, 4, 4}} {
		pick := picker(c.total, c.limit)
		n, mod := 0, map[int]bool{}
		for r := range c.total {
			if pick(r) {
				n++
				mod[r%8] = true
			}
		}
		if n != c.want || c.want >= 100 && len(mod) != 8 {
			t.Errorf("%s: picked %d, positions within a tile %v", fmt.Sprint(c), n, mod)
		}
	}
}
