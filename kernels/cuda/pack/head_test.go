package pack

import (
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestHead checks the header for at most 10 tokens. A rank receives 10 tokens x 2 ranks x 8 selections = 160 rows. FP8
// pads 128 experts to multiples of 4: at most 160 + 3 x 128 = 544 rows.
func TestHead(t *testing.T) {
	for _, c := range []struct {
		arch         string
		major, minor uint32
		exact        bool
	}{{"sm_80", 8, 0, false}, {"sm_86", 8, 6, false}, {"sm_90", 9, 0, true}, {"sm_100", 10, 0, true}} {
		p := build(t, func(r *Request) { r.Machine.Arch, r.Problem.MaxTokens = c.arch, 10 })
		if p.head.Major != c.major || p.head.Minor != c.minor || p.head.Flags&flagExact != 0 != c.exact || strings.HasSuffix(p.Arch, "a") != c.exact {
			t.Errorf("%s: capability %d.%d, flags %b, binaries for %s", c.arch, p.head.Major, p.head.Minor, p.head.Flags, p.Arch)
		}
	}
	p := build(t, func(r *Request) { r.Problem.MaxTokens, r.DTypes = 10, []ep.DType{ep.BF16, ep.FP8} })
	for i, want := range []dtypeRecord{
		{RowPad: 1, MaxRows: 160, RowBytes: 14336, OutBytes: 160 * 14336},
		{RowPad: 4, MaxRows: 544, RowBytes: 7168, OutBytes: 544 * 7168, ScaleBytes: 544 * 56 * 4, Scales: 56, ScaleSize: 4},
	} {
		got := p.dtypes[i]
		if want.DType = got.DType; got != want {
			t.Errorf("dtype %d: %+v, want %+v", i, got, want)
		}
	}
	if p.dtypes[0].DType == p.dtypes[1].DType || ep.DTypes()[p.dtypes[1].DType-1] != ep.FP8 {
		t.Errorf("the numbers of the two dtypes are %d and %d, want the number of fp8 in the second place", p.dtypes[0].DType, p.dtypes[1].DType)
	}
	own := map[uint32]bool{}
	for _, state := range p.states {
		own[state.DType] = true
	}
	if len(own) != 2 {
		t.Errorf("%d of 2 dtypes have memory of their own", len(own))
	}
	for i, m := range p.modules {
		if m.Offset%16 != 0 {
			t.Errorf("binary %d begins at %d, no multiple of 16", i, m.Offset)
		}
	}
	for i, s := range p.head.Sections {
		if s.Offset%16 != 0 {
			t.Errorf("section %d begins at %d, no multiple of 16", i, s.Offset)
		}
	}
}

func TestFlags(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		want   uint32
	}{
		"nothing":   {func(*Request) {}, 0},
		"raw":       {func(r *Request) { r.Raw = true }, flagRaw},
		"reduced":   {func(r *Request) { r.Reduced = true }, flagReduced},
		"survivors": {func(r *Request) { r.Survivors = true }, flagSurvivors},
	} {
		p := build(t, func(r *Request) {
			r.Problem.Layout, r.DTypes = ep.LayoutMasked, []ep.DType{ep.FP8}
			c.change(r)
		})
		if got := p.head.Flags &^ flagExact; got != c.want {
			t.Errorf("%s: flags %b, want %b", name, got, c.want)
		}
	}
}

// TestDistance: 8 tokens are as far from 16 as 64 are from 32.
func TestDistance(t *testing.T) {
	r := table.Run{Lo: 16, Hi: 32}
	for tokens, want := range map[int]float64{8: math.Log(2), 16: 0, 20: 0, 32: 0, 64: math.Log(2), 96: math.Log(3), 4: math.Log(4)} {
		if got := distance(r, tokens); !(math.Abs(got-want) < 1e-12) {
			t.Errorf("%d tokens: distance %g, want %g", tokens, got, want)
		}
	}
}

// TestNearestRowAnswers: the nearest usable combine answers. By ratio 100 tokens are nearer to 128 than to 32.
func TestNearestRowAnswers(t *testing.T) {
	p := build(t, nil, row(ep.Dispatch, 1, 4096, dispatchLL, 10),
		row(ep.Combine, 1, 32, combineLL, 1), row(ep.Combine, 33, 127, combineFinal, 90), row(ep.Combine, 128, 4096, combineDedup, 40))
	if a := said(t, p, ep.Pair, ep.Even, 100); a.Dispatch != dispatchLL || a.Combine != combineDedup {
		t.Errorf("%+v", a)
	}
}

// TestEquallyNearRows: if two rows are equally near, the row with the smaller token count answers.
func TestEquallyNearRows(t *testing.T) {
	p := build(t, nil, row(ep.Dispatch, 1, 4096, dispatchLL, 10),
		row(ep.Combine, 1, 8, combineLL, 1), row(ep.Combine, 9, 31, combineFinal, 90), row(ep.Combine, 32, 4096, combineDedup, 40))
	if a := said(t, p, ep.Pair, ep.Even, 16); a.Dispatch != dispatchLL || a.Combine != combineLL {
		t.Errorf("16 tokens, between rows up to 8 and from 32 on: %s and %s", a.Dispatch, a.Combine)
	}
}

// fitted returns a Fitter of packs with 1,000 bytes, and 100 more for each token of each call.
func fitted(most int) *Fitter {
	f := &Fitter{known: map[int]sizing{}}
	for _, n := range fitCounts {
		f.known[n] = sizing{around: 1000, slot: int64(100 * n)}
		if n > most {
			f.known[n] = sizing{err: errNoFit}
		}
	}
	return f
}

var errNoFit = &fitError{}

type fitError struct{}

func (*fitError) Error() string { return "more tokens than the kernels support" }

func TestFitByHand(t *testing.T) {
	for _, c := range []struct {
		bytes    int64
		inFlight int
		tokens   int
		heap     int64
	}{
		{1099, 1, 0, 0}, {1100, 1, 1, 1100}, {1199, 1, 1, 1100}, {1200, 1, 2, 1200}, {1200, 2, 1, 1200}, {2000, 1, 10, 2000}, {2001, 1, 10, 2000},
		{2199, 1, 10, 2000}, {2200, 1, 12, 2200}, {1 << 20, 1, 10240, 1025000}, {1 << 20, 4, 2560, 1025000},
	} {
		n, heap, err := fitted(ep.MaxTokens).Tokens(c.bytes, c.inFlight)
		if n != c.tokens || heap != c.heap || err != nil {
			t.Errorf("%d bytes, %d calls in flight: %d tokens take %d bytes, error %v; want %d tokens that take %d bytes", c.bytes, c.inFlight, n, heap, err, c.tokens, c.heap)
		}
	}
	f := fitted(14)
	if n, heap, err := f.Tokens(1<<40, 1); n != 14 || heap != 2400 || err != nil {
		t.Errorf("with kernels for 14 tokens: %d tokens take %d bytes (error %v)", n, heap, err)
	}
	if err := f.Beyond(12); err != nil {
		t.Errorf("beyond 12: %v", err)
	}
	if err := f.Beyond(14); err != errNoFit {
		t.Errorf("beyond 14: %v", err)
	}
	if err := fitted(ep.MaxTokens).Beyond(ep.MaxTokens); err != nil {
		t.Errorf("beyond the largest count: %v", err)
	}
	// Three calls of 10 tokens take 1,000 + 3 x 100 x 10 = 4,000 bytes, four 5,000.
	for bytes, want := range map[int64]int{4500: 3, 4999: 3, 5000: 4, 1000: 0, 10: 0} {
		if n, err := f.InFlight(bytes, 10); n != want || err != nil {
			t.Errorf("%d bytes: %d calls, %v, want %d", bytes, n, err, want)
		}
	}
	if _, err := f.InFlight(1<<40, 16); err != errNoFit {
		t.Errorf("calls of too many tokens: %v", err)
	}
}
