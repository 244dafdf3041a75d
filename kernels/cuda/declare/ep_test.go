package declare

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// epCase is a dispatch and a combine to emulate. By default, each kernel has few blocks, but at
// least one block for each of its tasks.
type epCase struct {
	name    string
	dtype   ep.DType
	ranks   int
	experts int
	topK    int
	hidden  int
	tokens  []int // for each rank, repeated for further ranks
	max     int   // max-tokens
	masked  float64
	hot     float64
	shared  bool
	skip    bool
	layout  ep.Layout
	conf    []string // parameters of both kernels: name, value, ...
	dconf   []string // further parameters of the dispatch
	cconf   []string // further parameters of the combine
}

func (c epCase) problem() ep.Problem {
	return ep.Problem{Op: ep.Pair, Mode: ep.Graph, Ranks: c.ranks, Nodes: 1, Hidden: c.hidden, Experts: c.experts,
		TopK: c.topK, Tokens: c.max, MaxTokens: c.max, Dispatch: c.dtype, Combine: ep.BF16,
		SharedExpert: c.shared, SkipA2A: c.skip, Layout: c.layout}
}

func (c epCase) configs(p ep.Problem) (dispatch, combine ep.Config) {
	small := []string{"sms", "4", "threads", "96"}
	dispatch = changed(changed(dispatchEP().Kernel.Default(onCPU(), p), append(small, "count_sms", "1")...), append(c.conf, c.dconf...)...)
	combine = changed(changed(combineEP().Kernel.Default(onCPU(), p), small...), append(c.conf, c.cconf...)...)
	return dispatch, combine
}

// epPair is an emulated case.
type epPair struct {
	*emulated
	dc, cc            ep.Config
	dispatch, combine []string
}

func (c epCase) prepare(t *testing.T) epPair {
	t.Helper()
	p := c.problem()
	e := emulate(t, emulWorkload(p, c.tokens, c.hot, c.masked, 3), epState, c.scale())
	x := epPair{emulated: e}
	x.dc, x.cc = c.configs(p)
	x.dispatch, x.combine = e.call(dispatchEP(), x.dc), e.call(combineEP(), x.cc)
	return x
}

// scale returns NVFP4's global input scale, which is not 1.
func (c epCase) scale() float32 {
	if c.dtype == ep.NVFP4 {
		return 0.5
	}
	return 1
}

func (e epPair) compare() ref.Compare {
	return ref.Compare{Bits: true, Partial: partialOf(e.cc)}
}

// round returns a pair's statements. They first wipe receive slots and outputs. A combine with algo=dedup reads the
// dispatch's slots, so only algo=direct wipes them before the combine.
func (e epPair) round() [][]string {
	calls := [][]string{e.wipe(epState.Part("return")), e.wipe(PartCombined), e.wipe(PartOut), e.dispatch}
	if e.cc.Str("algo") == "direct" {
		calls = append(calls, e.wipe(epState.Part("recv")))
	}
	return append(calls, e.experts(), e.combine)
}

// outputs lists the parts that every pair must write.
var outputs = []string{PartOut, PartScales, PartRowOffsets, PartSrcInfo, PartExpertIDs, PartScaleOffsets, PartY, PartCombined}

func (e epPair) check() {
	e.t.Helper()
	e.checkDispatch(ref.Compare{})
	e.checkCombine(e.compare())
	e.checkCounters()
}

// checkCounters: after a call, the counters hold {EP_READY_FLAG + end row, rows} for each pair of an expert and a
// source rank. Every other counter is zero.
func (e epPair) checkCounters() {
	e.t.Helper()
	p := e.w.Problem
	pair, prefix := 40+2*p.Experts, 40+4*p.Experts
	for r := range p.Ranks {
		for i, v := range words[int32](e.part(r, epState.Part("counters"))) {
			messages := i >= 24 && i < 32 // dedup: written by dispatch, read by combine
			if v != 0 && !messages && (i < pair || i >= prefix+p.Experts) && !e.isCursor(i) {
				e.t.Fatalf("rank %d: counter %d is %d after the call, want 0", r, i, v)
			}
		}
		for _, name := range []string{"counts", "return_counts"} {
			if b := e.part(r, epState.Part(name)); !bytes.Equal(b, bytes.Repeat([]byte{0xff}, len(b))) {
				e.t.Fatalf("rank %d: %s are % x after the call, want all ones", r, name, b)
			}
		}
		e.checkPairs(r, words[int32](e.part(r, epState.Part("counters")))[pair:])
	}
}

// isCursor reports whether word i is a tile claim or row cursor, which the next call clears.
func (e epPair) isCursor(i int) bool {
	experts := e.w.Problem.Experts
	return i == 5 || i >= 40+5*experts && i < 40+7*experts
}

func (e epPair) checkPairs(rank int, got []int32) {
	e.t.Helper()
	d := e.oracle.Dispatch(rank)
	pair := 0
	for g, group := range d.Groups {
		if group.Expert == ref.Shared {
			continue
		}
		end := int32(d.RowOffsets[g])
		for _, items := range group.Items {
			end += int32(len(items))
			if got[2*pair] != 1024+end || got[2*pair+1] != int32(len(items)) {
				e.t.Fatalf("rank %d pair %d: {%d, %d}, want {%d, %d}", rank, pair, got[2*pair], got[2*pair+1], 1024+end, len(items))
			}
			pair++
		}
	}
}

var epCases = []epCase{
	{name: "bulk", dtype: ep.BF16, ranks: 2, experts: 8, topK: 4, hidden: 1024, tokens: []int{25, 5}, max: 25, shared: true,
		conf: []string{"copy", "bulk"}},
	{name: "bulk dispatch, dedup", dtype: ep.NVFP4, ranks: 2, experts: 8, topK: 4, hidden: 160, tokens: []int{25, 5}, max: 25,
		conf: []string{"algo", "dedup"}, dconf: []string{"copy", "bulk", "mode", "split"}},
	{name: "bf16", dtype: ep.BF16, ranks: 2, experts: 8, topK: 2, hidden: 256, tokens: []int{8, 5}, max: 8},
	{name: "fp8 split", dtype: ep.FP8, ranks: 4, experts: 16, topK: 4, hidden: 256, tokens: []int{7, 0, 3, 1}, max: 7,
		masked: 0.2, conf: []string{"mode", "split", "pdl", "0"}, dconf: []string{"chunk_bytes", "64"}, cconf: []string{"rotate", "1", "rows", "2"}},
	{name: "mxfp4 one hot expert, many blocks", dtype: ep.MXFP4, ranks: 2, experts: 4, topK: 2, hidden: 192, tokens: []int{40, 17}, max: 40,
		hot: 1, dconf: []string{"sms", "7", "tile_tokens", "4", "threads", "32"}, cconf: []string{"wait_sms", "2"}},
	{name: "nvfp4 shared", dtype: ep.NVFP4, ranks: 2, experts: 6, topK: 3, hidden: 128, tokens: []int{9, 4}, max: 9, shared: true},
	{name: "fp8 shared split", dtype: ep.FP8, ranks: 2, experts: 4, topK: 2, hidden: 128, tokens: []int{5, 0}, max: 6, shared: true,
		conf: []string{"mode", "split"}},
	{name: "one rank", dtype: ep.BF16, ranks: 1, experts: 3, topK: 3, hidden: 264, tokens: []int{6}, max: 6, dconf: []string{"count_sms", "2"}},
	{name: "eight ranks, top 8", dtype: ep.BF16, ranks: 8, experts: 64, topK: 8, hidden: 64, tokens: []int{3, 1, 0, 2}, max: 3,
		conf: []string{"sms", "2"}, cconf: []string{"chunk_bytes", "32"}},
	{name: "dedup", dtype: ep.BF16, ranks: 2, experts: 8, topK: 4, hidden: 256, tokens: []int{8, 5}, max: 8, conf: []string{"algo", "dedup"}},
	{name: "dedup fp8 split masked", dtype: ep.FP8, ranks: 4, experts: 16, topK: 6, hidden: 256, tokens: []int{7, 0, 3, 9}, max: 9, masked: 0.3,
		conf: []string{"algo", "dedup", "mode", "split"}, dconf: []string{"tile_tokens", "2", "chunk_bytes", "128"}, cconf: []string{"rotate", "1", "chunk_bytes", "64"}},
	{name: "dedup nvfp4 shared", dtype: ep.NVFP4, ranks: 2, experts: 6, topK: 3, hidden: 128, tokens: []int{9, 4}, max: 9, shared: true,
		conf: []string{"algo", "dedup"}},
	{name: "direct after dedup", dtype: ep.MXFP4, ranks: 2, experts: 8, topK: 3, hidden: 64, tokens: []int{9, 4}, max: 9, dconf: []string{"algo", "dedup"}},
	{name: "skip", dtype: ep.FP8, ranks: 2, experts: 8, topK: 2, hidden: 128, tokens: []int{7}, max: 8, skip: true},
	{name: "skip shared split", dtype: ep.BF16, ranks: 4, experts: 8, topK: 3, hidden: 64, tokens: []int{7}, max: 8, skip: true, shared: true,
		conf: []string{"mode", "split"}},
}

// TestEPEmulated: both ep kernels give the oracle's bytes in one pair, in a repeated combine, and in many pairs without
// barriers.
func TestEPEmulated(t *testing.T) {
	for _, c := range epCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := c.prepare(t)
			e.run(1, e.dispatch, e.experts(), e.combine)
			e.check()
			e.poison(PartCombined)
			e.run(1, e.combine)
			e.check()
			e.poison(outputs...)
			for r := range e.w.Problem.Ranks {
				e.extra = append(e.extra, fmt.Sprintf("set %d delay_ns %d", r, r%3*200_000))
			}
			e.run(20, e.round()...)
			e.check()
		})
	}
}

// TestEPThousandPairs: the last of a thousand pairs in one memory gives the oracle's bytes.
func TestEPThousandPairs(t *testing.T) {
	c := epCase{dtype: ep.BF16, ranks: 2, experts: 4, topK: 2, hidden: 64, tokens: []int{3, 2}, max: 3,
		conf: []string{"sms", "2", "threads", "32"}}
	e := c.prepare(t)
	e.run(1000, e.round()...)
	e.check()
}

// TestEPRaceFree: a fence, a barrier or an atomic orders any two conflicting accesses.
func TestEPRaceFree(t *testing.T) {
	detector := need(t, raceTools)
	for _, algo := range []string{"direct", "dedup"} {
		t.Run(algo, func(t *testing.T) {
			t.Parallel()
			c := epCase{dtype: ep.FP8, ranks: 2, experts: 4, topK: 2, hidden: 128, tokens: []int{4, 3}, max: 4, shared: true,
				conf: []string{"sms", "3", "threads", "64", "algo", algo}}
			e := c.prepare(t)
			e.tools = detector
			e.dispatch, e.combine = e.call(dispatchEP(), e.dc), e.call(combineEP(), e.cc)
			e.run(3, e.dispatch, e.experts(), e.combine)
			e.check()
		})
	}
}

// TestEPLostSignal: the rank that waits for a lost signal writes a fault with phase, expert and source. After a reset,
// results are right.
func TestEPLostSignal(t *testing.T) {
	for _, lost := range []struct {
		name, algo string
		drop       int // expert whose signal rank 1 loses
		op         ep.Op
		want       string
	}{
		{"dispatch", "direct", 2, ep.Dispatch, "rank 0 phase 3 expert 2 source 1 want 0 got 18446744073709551615"},
		{"combine", "direct", 5, ep.Combine, "rank 0 phase 5 expert 5 source 1 want 0 got 18446744073709551615"},
		{"dedup dispatch", "dedup", 3, ep.Dispatch, "rank 0 phase 3 expert 3 source 1 want 0 got 18446744073709551615"},
		{"dedup combine", "dedup", 4, ep.Combine, "rank 0 phase 5 expert -1 source 1 want 3 got 2"},
	} {
		t.Run(lost.name, func(t *testing.T) {
			t.Parallel()
			c := epCase{dtype: ep.BF16, ranks: 2, experts: 8, topK: 2, hidden: 64, tokens: []int{4, 3}, max: 4, conf: []string{"algo", lost.algo}}
			e := c.prepare(t)
			e.run(2, e.dispatch, e.experts(), e.combine)
			e.check()
			e.extra = []string{"set * deadline_ns 300000000", fmt.Sprintf("set 1 drop_signal %d", lost.drop+1)}
			if lost.op == ep.Dispatch {
				e.run(1, e.dispatch)
			} else {
				e.run(1, e.combine)
			}
			if got := e.faultOf(0); got != lost.want {
				t.Errorf("rank 0 says %q, want %q", got, lost.want)
			}
			e.extra = nil
			e.reset()
			e.run(1, e.dispatch, e.experts(), e.combine)
			e.check()
		})
	}
}

// TestEPBadSourceIsSkipped: a row whose source is out of range is not sent.
func TestEPBadSourceIsSkipped(t *testing.T) {
	c := epCase{dtype: ep.BF16, ranks: 2, experts: 4, topK: 2, hidden: 64, tokens: []int{4, 3}, max: 4}
	e := c.prepare(t)
	e.run(1, e.dispatch, e.experts())
	for i, bad := range []int32{-1, 4, 1 << 30} {
		binary.LittleEndian.PutUint32(e.part(0, PartSrcInfo)[8*i:], uint32(bad))
	}
	binary.LittleEndian.PutUint32(e.part(1, PartSrcInfo)[4:], 2) // no such top-k position
	before := bytes.Clone(e.mem)
	e.run(1, e.combine)
	e.noFaults()
	for r := range e.w.Problem.Ranks {
		for _, p := range e.heap.Parts {
			at := e.at(r, p.Name)
			written := p.Name == PartCombined || strings.HasPrefix(p.Name, epState.Name)
			if !written && !bytes.Equal(e.mem[at:at+p.Bytes], before[at:at+p.Bytes]) {
				t.Errorf("rank %d: combine wrote to %s", r, p.Name)
			}
		}
	}
}

// TestEPWithoutWeights: without router weights combine does not sum, and its output is [token, k, hidden].
func TestEPWithoutWeights(t *testing.T) {
	c := epCase{dtype: ep.BF16, ranks: 2, experts: 6, topK: 3, hidden: 64, tokens: []int{4, 3}, max: 4, masked: 0.2}
	e := c.prepare(t)
	e.run(1, e.dispatch, e.experts())
	e.extra = []string{"set * weights 0"}
	e.run(1, e.combine)
	e.noFaults()
	want, zero := make([]uint16, c.hidden), make([]uint16, c.hidden)
	for r := range c.ranks {
		for i, expert := range e.w.Ranks[r].Experts {
			copy(want, zero)
			if expert >= 0 {
				for j, x := range ref.Dequantize(c.dtype, e.oracle.Token(r, i/c.topK), c.hidden, 1) {
					want[j] = ref.BF16(x * ref.Gain(int(expert)))
				}
			}
			if got := e.combined(r, i); !slices.Equal(got, want) {
				t.Fatalf("rank %d token %d k %d: %x, want %x", r, i/c.topK, i%c.topK, got, want)
			}
		}
	}
}

// TestEPEpilogue: the epilogue is applied once to each value, after the addition of the shared expert.
func TestEPEpilogue(t *testing.T) {
	for _, hook := range []string{"scale", "bias"} {
		c := epCase{dtype: ep.BF16, ranks: 1, experts: 3, topK: 2, hidden: 64, tokens: []int{5}, max: 5, shared: true,
			cconf: []string{"epilogue", hook}}
		e := c.prepare(t)
		e.extra = []string{"fset * epilogue_scale 2"}
		e.run(1, e.dispatch, e.experts(), e.combine)
		e.noFaults()
		for token := range 5 {
			got := e.combined(0, token)
			for i, sum := range e.oracle.CombineRow(0, token, ref.NoPartial).Want {
				want := ref.BF16ToFloat(sum) * 2
				if hook == "bias" {
					want = ref.BF16ToFloat(sum) + e.bias(i)
				}
				if got[i] != ref.BF16(want) {
					t.Fatalf("%s: token %d column %d: %#04x, want %#04x", hook, token, i, got[i], ref.BF16(want))
				}
			}
		}
	}
}

// TestEPCopySharedOutputs: ep_copy_shared_outputs copies the first rows and changes nothing else.
func TestEPCopySharedOutputs(t *testing.T) {
	c := epCase{dtype: ep.BF16, ranks: 1, experts: 3, topK: 2, hidden: 64, tokens: []int{3}, max: 5}
	e := c.prepare(t)
	for i := range e.part(0, PartY) {
		e.part(0, PartY)[i] = byte(i * 11)
	}
	e.run(1, []string{e.combine[0], "launch ep_copy_shared_outputs 2 64 0"})
	n := 3 * c.hidden * 2
	if got := e.part(0, PartCombined); !bytes.Equal(got[:n], e.part(0, PartY)[:n]) || !bytes.Equal(got[n:], bytes.Repeat([]byte{0xff}, len(got)-n)) {
		t.Error("the first three rows differ from the input, or other rows changed")
	}
}
