package pack

import (
	"bytes"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

var machine = ep.Machine{Backend: "cuda", PCIID: "10de:2335", Arch: "sm_90", SMs: 132, GPUs: 2, Link: "nv18"}

var shape = ep.Problem{Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, MaxTokens: 4096, Mode: ep.Graph, Combine: ep.BF16}

const (
	dispatchLL    = "dispatch_ll:count=sender,early=0,input=bf16,mode=fused,part=512,pause=0,pdl=0,receivers=8,recv_sms=0,send=512,sms=64,threads=512"
	dispatchFinal = "dispatch_final:algo=dedup,scales=row,sms=132,team=1,threads=768,wait_sms=82"
	combineLL     = "combine_ll:after=ll,algo=direct,mode=fused,own=slot,pdl=0,receivers=0,recv_sms=0,sms=64,threads=512"
	combineDedup  = "combine_ll:after=ll,algo=dedup,mode=fused,own=slot,pdl=0,receivers=0,recv_sms=0,sms=64,threads=512"
	combineFinal  = "combine_final:algo=direct,in_flight=0,own=slot,sms=66,threads=768,wait_sms=33"
)

// row returns a table row whose config takes `us` microseconds at `hi` tokens.
func row(op ep.Op, lo, hi int, config string, us float64) table.Row {
	p := shape
	p.Op, p.Dispatch = op, ep.BF16
	c, err := ep.ParseConfig(config)
	if err != nil {
		panic(err)
	}
	return table.Row{Key: table.KeyOf(p, ep.Even), Lo: lo, Hi: hi, Config: c,
		Evidence: table.Evidence{Median: us * 1e-6, Gain: 2, GainLow: 1.9, GainHigh: 2.1, Rounds: 40, Tokens: []int{hi}}}
}

func pairRow(lo, hi int, dispatch, combine string, us float64) table.Row {
	pair, configs := row(ep.Pair, lo, hi, "x:y=1", us), forced(dispatch, combine)
	pair.Config = ep.Join(configs[0], configs[1])
	return pair
}

// compile replaces NVRTC. A binary is a hash of its unit's key.
func compile(_ string, units []sources.Unit) (Compiled, error) {
	out := make([][]byte, len(units))
	for i, u := range units {
		sum := sha256.Sum256([]byte(u.Key()))
		out[i] = bytes.Repeat(sum[:], 4)
	}
	return Compiled{Cubins: out, Network: "3.8.0"}, nil
}

// build makes a pack of rows. change edits the request.
func build(t testing.TB, change func(*Request), rows ...table.Row) *Pack {
	t.Helper()
	tab := &table.Table{Header: table.Header{Machine: machine, ABI: "abi"}, ID: "table", Rows: rows}
	r := Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, Tables: table.Overlay(table.Source{Name: "t", Table: tab}), ABI: "abi"}
	if change != nil {
		change(&r)
	}
	p, err := Build(r, compile)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func said(t testing.TB, p *Pack, purpose ep.Op, c ep.Class, tokens int) Answer {
	t.Helper()
	for _, a := range p.Answers(ep.BF16, false, purpose, c) {
		if a.Lo <= tokens && tokens <= a.Hi {
			return a
		}
	}
	t.Fatalf("no answer for %s, %s, %d tokens", purpose, c, tokens)
	return Answer{}
}

// TestRowsOfOtherGPUs: rows of similar GPUs answer only on request, and the answer's text says so.
func TestRowsOfOtherGPUs(t *testing.T) {
	for _, accept := range []bool{false, true} {
		p := build(t, func(r *Request) {
			r.Machine.PCIID, r.OtherMachines, r.Problem.MaxTokens = "10de:2330", accept, 64
		}, row(ep.Dispatch, 1, 4096, dispatchLL, 10))
		a := said(t, p, ep.Dispatch, ep.Even, 8)
		if (a.Dispatch == dispatchLL) != accept || strings.Contains(a.Text, "measured on other GPUs") != accept || a.Uncovered == accept {
			t.Errorf("accepted %v: %+v", accept, a)
		}
	}
}

// TestPairsAreJoined: dispatch and combine both use the kind of memory with the smaller sum of times.
func TestPairsAreJoined(t *testing.T) {
	p := build(t, nil,
		row(ep.Dispatch, 1, 100, dispatchLL, 10), row(ep.Dispatch, 101, 4096, dispatchFinal, 100),
		row(ep.Combine, 1, 1000, combineLL, 200), row(ep.Combine, 1001, 4096, combineFinal, 400))
	for _, c := range []struct {
		tokens            int
		dispatch, combine string
	}{
		{50, dispatchLL, combineLL},
		{2000, dispatchFinal, combineFinal},
		// At 500 tokens the ll rows take 500/100 x 10 + 500/1000 x 200 = 150 us, the final rows 500/4096 x (100 + 400)
		// = 61 us.
		{500, dispatchFinal, combineFinal},
	} {
		if a := said(t, p, ep.Pair, ep.Even, c.tokens); a.Dispatch != c.dispatch || a.Combine != c.combine {
			t.Errorf("%d tokens: %s and %s, want %s and %s", c.tokens, a.Dispatch, a.Combine, c.dispatch, c.combine)
		}
	}
	slow := build(t, nil,
		row(ep.Dispatch, 1, 100, dispatchLL, 10), row(ep.Dispatch, 101, 4096, dispatchFinal, 1000),
		row(ep.Combine, 1, 1000, combineLL, 200), row(ep.Combine, 1001, 4096, combineFinal, 4000))
	if a := said(t, slow, ep.Pair, ep.Even, 500); a.Dispatch != dispatchLL || a.Combine != combineLL {
		t.Errorf("the final kernels take 610 us and the ll kernels 150 us, but the pair is %s and %s", a.Dispatch, a.Combine)
	}
}

// TestTimesAreOfTheCountNamed: a median is the time at TimedAt, or at the smallest count.
func TestTimesAreOfTheCountNamed(t *testing.T) {
	r := row(ep.Dispatch, 1, 100, dispatchLL, 10)
	r.Evidence.Tokens = []int{10, 100}
	for at, want := range map[int]float64{0: 20e-6, 10: 20e-6, 100: 2e-6} {
		if r.Evidence.TimedAt = at; math.Abs(took(&r, 20)-want) > 1e-12 {
			t.Errorf("timed at %d tokens: 20 tokens take %v, want %v", at, took(&r, 20), want)
		}
	}
}

// TestNearestPairAnswers: a pair's row answers for more tokens than it covers, unless the rows of a dispatch and of a
// combine are faster in proportion.
func TestNearestPairAnswers(t *testing.T) {
	for us, want := range map[float64]string{
		// At 4,096 tokens the pair takes twice its row's time. The other rows take 4096/128 x 10 + 400 = 720 us.
		240: dispatchFinal,
		400: dispatchLL,
	} {
		p := build(t, nil, pairRow(257, 2048, dispatchFinal, combineFinal, us), row(ep.Dispatch, 1, 128, dispatchLL, 10), row(ep.Combine, 129, 4096, combineLL, 400))
		a := said(t, p, ep.Pair, ep.Even, 4096)
		if a.Dispatch != want || strings.HasPrefix(a.Text, "the nearest measured pair") != (want == dispatchFinal) {
			t.Errorf("a pair of %v us at 2,048 tokens: %s, %s, want %s", us, a.Dispatch, a.Text, want)
		}
	}
}

func TestRowsOfPairsAnswerFirst(t *testing.T) {
	p := build(t, nil, pairRow(1, 4096, dispatchLL, combineLL, 50), row(ep.Dispatch, 1, 4096, dispatchFinal, 1), row(ep.Combine, 1, 4096, combineFinal, 1))
	if a := said(t, p, ep.Pair, ep.Even, 100); a.Dispatch != dispatchLL || a.Combine != combineLL {
		t.Errorf("%s and %s, want the pair's own row", a.Dispatch, a.Combine)
	}
	if a := said(t, p, ep.Dispatch, ep.Even, 100); a.Dispatch != dispatchFinal || !strings.HasPrefix(a.Combine, "combine_final:") {
		t.Errorf("dispatch alone: %s with %s", a.Dispatch, a.Combine)
	}
}

// TestDispatchInTwoStates: a dispatch is packed twice: with its own memory, and with a combine's larger memory.
func TestDispatchInTwoStates(t *testing.T) {
	const combine = "combine_ll:after=final,algo=direct,mode=fused,own=registers,pdl=0,receivers=12,recv_sms=0,sms=132,threads=768"
	p := build(t, nil, pairRow(1024, 4096, dispatchFinal, combine, 50), row(ep.Dispatch, 1, 4096, dispatchFinal, 1), row(ep.Combine, 1, 4096, combineFinal, 1))
	if a := said(t, p, ep.Pair, ep.Even, 2000); a.Dispatch != dispatchFinal || a.Combine != combine {
		t.Errorf("%s and %s, want the pair's row", a.Dispatch, a.Combine)
	}
	text, err := p.bytes(secStrings)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for _, s := range p.states {
		name, _, _ := strings.Cut(string(text[s.Name:]), "\x00")
		held[name]++
	}
	if held["final"] != 1 || held["final-polled"] != 1 {
		t.Errorf("the pack has the states %v, want final and final-polled once each", held)
	}
}

// TestElsewhere: for outputs to which other ranks cannot write, the pack has another kernel.
func TestElsewhere(t *testing.T) {
	p := build(t, nil, row(ep.Dispatch, 1, 10, dispatchLL, 1), row(ep.Dispatch, 11, 4096, dispatchFinal, 1), row(ep.Combine, 1, 4096, combineFinal, 9))
	if a := said(t, p, ep.Pair, ep.Even, 1000); a.Dispatch != dispatchFinal || a.Elsewhere != dispatchLL {
		t.Errorf("dispatch %s, for outputs elsewhere %q; want %s and %s", a.Dispatch, a.Elsewhere, dispatchFinal, dispatchLL)
	}
	only := build(t, nil, row(ep.Dispatch, 1, 4096, dispatchFinal, 1), row(ep.Combine, 1, 4096, combineFinal, 9))
	if a := said(t, only, ep.Pair, ep.Even, 1000); !strings.HasPrefix(a.Elsewhere, "dispatch_ll:") {
		t.Errorf("the dispatch for outputs elsewhere is %q, want the default of dispatch_ll", a.Elsewhere)
	}
}

func TestUncoveredIsTheDefaultAndSaid(t *testing.T) {
	p := build(t, nil, row(ep.Dispatch, 1, 100, dispatchLL, 1), row(ep.Combine, 1, 100, combineLL, 1))
	a := said(t, p, ep.Pair, ep.Even, 101)
	if !a.Uncovered || !strings.HasPrefix(a.Dispatch, "dispatch:") || !strings.Contains(a.Text, "no row covers this") {
		t.Errorf("%+v", a)
	}
	if said(t, p, ep.Pair, ep.Even, 100).Uncovered {
		t.Error("a token count with a row is called uncovered")
	}
	other := build(t, func(r *Request) { r.ABI = "other" }, row(ep.Dispatch, 1, 100, dispatchLL, 1))
	if a := said(t, other, ep.Pair, ep.Even, 1); !a.Uncovered || len(other.Notes) == 0 {
		t.Errorf("rows of other kernels answered: %+v, notes %q", a, other.Notes)
	}
}

func TestMaxSMs(t *testing.T) {
	p := build(t, func(r *Request) { r.MaxSMs = 24 }, row(ep.Dispatch, 1, 4096, dispatchLL, 1), row(ep.Combine, 1, 4096, combineLL, 1))
	if p.head.LargestGrid > 24 {
		t.Errorf("a call takes %d SMs, the bound is 24", p.head.LargestGrid)
	}
	if a := said(t, p, ep.Pair, ep.Even, 1); !strings.Contains(a.Text, "cannot run within these bounds") {
		t.Errorf("%s", a.Text)
	}
}

// TestMaxSMsOfRank: with few SMs and no row, a pack still has a call for outputs outside the symmetric heap.
func TestMaxSMsOfRank(t *testing.T) {
	p := build(t, func(r *Request) {
		r.Problem.Layout, r.DTypes, r.MaxSMs = ep.LayoutRankPacked, []ep.DType{ep.BF16}, 64
	})
	for _, a := range p.Answers(ep.BF16, false, ep.Pair, ep.Even) {
		long := a.Hi > 256
		if home := strings.Contains(a.Dispatch, "rows=home"); home != long {
			t.Errorf("up to %d tokens: %s", a.Hi, a.Dispatch)
		}
		if long && !strings.Contains(a.Elsewhere, "rows=staged") {
			t.Errorf("up to %d tokens, elsewhere: %q", a.Hi, a.Elsewhere)
		}
	}
}

func TestPrecision(t *testing.T) {
	reduced := row(ep.Combine, 1, 4096, combineDedup, 1)
	reduced.Key.Precision = ep.Reduced
	rows := []table.Row{row(ep.Dispatch, 1, 4096, dispatchLL, 1), row(ep.Combine, 1, 4096, combineLL, 2), reduced}
	full, both := build(t, nil, rows...), build(t, func(r *Request) { r.Reduced = true }, rows...)
	if a := said(t, full, ep.Pair, ep.Even, 8); a.Combine != combineLL {
		t.Errorf("full: %s", a.Combine)
	}
	if full.Answers(ep.BF16, true, ep.Pair, ep.Even) != nil {
		t.Error("a pack for full precision has reduced look-ups")
	}
	if a := both.Answers(ep.BF16, true, ep.Pair, ep.Even)[0]; a.Combine != combineDedup {
		t.Errorf("reduced: %s", a.Combine)
	}
}

func TestSameBytes(t *testing.T) {
	rows := []table.Row{row(ep.Dispatch, 1, 4096, dispatchLL, 1), row(ep.Combine, 1, 4096, combineLL, 2)}
	if a, b := build(t, nil, rows...), build(t, nil, rows...); !bytes.Equal(a.Data, b.Data) || a.Digest != b.Digest {
		t.Error("two packs of one request differ")
	}
}

func TestReadRefuses(t *testing.T) {
	good := build(t, nil, row(ep.Dispatch, 1, 4096, dispatchLL, 1)).Data
	for name, c := range map[string]struct {
		data []byte
		say  string
	}{
		"nothing":    {nil, "of a header"},
		"truncated":  {good[:len(good)-1], "truncated"},
		"other file": {append([]byte("ELF?"), good[4:]...), "begins with"},
		"a bit":      {flip(good, len(good)/2), "damaged or was edited"},
		"version":    {flip(good, 8), "format"},
	} {
		if _, err := Read(c.data); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
}

func flip(data []byte, at int) []byte {
	out := slices.Clone(data)
	out[at] ^= 4
	return out
}

func TestBuildRefuses(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"dtype:":   func(r *Request) { r.DTypes = nil },
		"hidden:":  func(r *Request) { r.Problem.Hidden = 7 },
		"max-sms:": func(r *Request) { r.MaxSMs = 1 },
		"arch:":    func(r *Request) { r.Machine.Arch = "amd64" },
	} {
		r := Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine}
		change(&r)
		if _, err := Build(r, compile); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	good := build(f, func(r *Request) { r.Problem.MaxTokens = 8 }, row(ep.Dispatch, 1, 4096, dispatchLL, 1)).Data
	f.Add(good)
	f.Add(good[:300])
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range [][]byte{data, reseal(data)} {
			if p, err := Read(d); err == nil {
				p.HeapBytes(2, ep.BF16)
				p.Answers(ep.BF16, false, ep.Pair, ep.Even)
			}
		}
	})
}

// reseal writes size and digest, so that Read continues.
func reseal(data []byte) []byte {
	out := slices.Clone(data)
	if len(out) > digestFrom {
		for i, n := 0, uint64(len(out)); i < 8; i++ {
			out[16+i] = byte(n >> (8 * i))
		}
		sum := sha256.Sum256(out[digestFrom:])
		copy(out[digestFrom-32:], sum[:])
	}
	return out
}

// TestLayoutsArePacked: a pack has its layout's kernels, and raw tokens on request.
func TestLayoutsArePacked(t *testing.T) {
	for layout, kernel := range map[ep.Layout]string{ep.LayoutRank: "rank", ep.LayoutRankPacked: "rank", ep.LayoutMasked: "masked"} {
		p := build(t, func(r *Request) {
			r.Problem.Layout, r.DTypes, r.Raw = layout, []ep.DType{ep.FP8}, true
		})
		if p.Shape().Layout != layout || p.head.Layout != uint32(slices.Index(ep.Layouts(), layout)) {
			t.Errorf("%s: the pack says %s, number %d", layout, p.Shape().Layout, p.head.Layout)
		}
		runs := p.Lookups[0].Runs
		few, many := runs[0], runs[len(runs)-1]
		for _, a := range []Answer{few, many} {
			if !strings.HasPrefix(a.Dispatch, "dispatch_"+kernel+":") || !strings.Contains(a.Dispatch, "input=fp8,") || !strings.HasPrefix(a.Combine, "combine_"+kernel+":") {
				t.Errorf("layout %s: the answer is %s and %s", layout, a.Dispatch, a.Combine)
			}
		}
		if few.Dispatch == many.Dispatch || few.Hi >= many.Lo {
			t.Errorf("%s: %d and %d tokens have the same answer: %s", layout, few.Hi, many.Lo, many.Dispatch)
		}
		index := declare.IndexOf(p.of(ep.FP8))
		if n := p.HeapBytes(1, ep.FP8); n < index.ExpertIDs+index.SrcInfo+index.ScaleOffsets {
			t.Errorf("%s: %d bytes have no room for the outputs %+v", layout, n, index)
		}
	}
	r := Request{Problem: shape, DTypes: []ep.DType{ep.FP8}, Machine: machine, Raw: true}
	if _, err := Build(r, compile); err == nil || !strings.Contains(err.Error(), "raw: layout expert takes only bf16 tokens") {
		t.Errorf("layout expert with raw tokens: %v", err)
	}
	p := build(t, func(r *Request) { r.Problem.Layout, r.Reduced = ep.LayoutExpert128, true })
	if a := said(t, p, ep.Dispatch, ep.Even, 100); !strings.HasPrefix(a.Dispatch, "dispatch:") || p.dtypes[0].RowPad != 128 {
		t.Errorf("layout expert:128: %s, rows in multiples of %d", a.Dispatch, p.dtypes[0].RowPad)
	}
}
