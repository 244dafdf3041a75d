package cuda

import (
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/plan"
)

// epCase is a pair to emulate. Unset values are small ones that still give
// every role a block of its own.
type epCase struct {
	name    string
	format  plan.Format
	ranks   int
	experts int
	topK    int
	hidden  int
	tokens  []int // by rank, going round
	max     int
	masked  float64
	hot     float64
	shared  bool
	skip    bool
	conf    []string // of both halves
	dconf   []string
	cconf   []string
}

func (c epCase) problem() plan.Problem {
	return plan.Problem{Op: plan.Pair, Mode: plan.Graph, Ranks: c.ranks, Nodes: 1, Hidden: c.hidden, Experts: c.experts,
		TopK: c.topK, Tokens: c.max, MaxTokens: c.max, Dispatch: c.format, Combine: plan.BF16,
		SharedExpert: c.shared, SkipA2A: c.skip}
}

func (c epCase) configs(p plan.Problem) (dispatch, combine plan.Config) {
	small := []string{"sms", "4", "threads", "96"}
	dispatch = changed(changed(defaultDispatchEP(onCPU(), p), append(small, "count_sms", "1")...), append(c.conf, c.dconf...)...)
	combine = changed(changed(defaultCombineEP(onCPU(), p), small...), append(c.conf, c.cconf...)...)
	return dispatch, combine
}

// Both ep kernels give the oracle's bytes, once from poisoned outputs and then
// after many pairs without a barrier.
func TestEPEmulated(t *testing.T) {
	for _, c := range []epCase{
		{name: "bf16", format: plan.BF16, ranks: 2, experts: 8, topK: 2, hidden: 256, tokens: []int{8, 5}, max: 8},
		{name: "fp8 split", format: plan.FP8, ranks: 4, experts: 16, topK: 4, hidden: 256, tokens: []int{7, 0, 3, 1}, max: 7,
			masked: 0.2, conf: []string{"mode", "split", "pdl", "0"}, dconf: []string{"chunk_bytes", "64"}, cconf: []string{"rotate", "1", "rows", "2"}},
		{name: "mxfp4 one hot expert, many blocks", format: plan.MXFP4, ranks: 2, experts: 4, topK: 2, hidden: 192, tokens: []int{40, 17}, max: 40,
			hot: 1, dconf: []string{"sms", "7", "tile_tokens", "4", "threads", "32"}, cconf: []string{"wait_sms", "2"}},
		{name: "nvfp4 shared", format: plan.NVFP4, ranks: 2, experts: 6, topK: 3, hidden: 128, tokens: []int{9, 4}, max: 9, shared: true},
		{name: "fp8 shared split", format: plan.FP8, ranks: 2, experts: 4, topK: 2, hidden: 128, tokens: []int{5, 0}, max: 6, shared: true,
			conf: []string{"mode", "split"}},
		{name: "one rank", format: plan.BF16, ranks: 1, experts: 3, topK: 3, hidden: 264, tokens: []int{6}, max: 6, dconf: []string{"count_sms", "2"}},
		{name: "eight ranks, top 8", format: plan.BF16, ranks: 8, experts: 64, topK: 8, hidden: 64, tokens: []int{3, 1, 0, 2}, max: 3,
			conf: []string{"sms", "2"}, cconf: []string{"chunk_bytes", "32"}},
		{name: "dedup", format: plan.BF16, ranks: 2, experts: 8, topK: 4, hidden: 256, tokens: []int{8, 5}, max: 8, conf: []string{"algo", "dedup"}},
		{name: "dedup fp8 split masked", format: plan.FP8, ranks: 4, experts: 16, topK: 6, hidden: 256, tokens: []int{7, 0, 3, 9}, max: 9, masked: 0.3,
			conf: []string{"algo", "dedup", "mode", "split"}, dconf: []string{"tile_tokens", "2", "chunk_bytes", "128"}, cconf: []string{"rotate", "1", "chunk_bytes", "64"}},
		{name: "dedup nvfp4 shared", format: plan.NVFP4, ranks: 2, experts: 6, topK: 3, hidden: 128, tokens: []int{9, 4}, max: 9, shared: true,
			conf: []string{"algo", "dedup"}},
		{name: "direct after dedup", format: plan.MXFP4, ranks: 2, experts: 8, topK: 3, hidden: 64, tokens: []int{9, 4}, max: 9, dconf: []string{"algo", "dedup"}},
		{name: "skip", format: plan.FP8, ranks: 2, experts: 8, topK: 2, hidden: 128, tokens: []int{7}, max: 8, skip: true},
		{name: "skip shared split", format: plan.BF16, ranks: 4, experts: 8, topK: 3, hidden: 64, tokens: []int{7}, max: 8, skip: true, shared: true,
			conf: []string{"mode", "split"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.problem()
			w := emulWorkload(p, c.tokens, c.hot, c.masked, 3)
			e := emulate(t, w, dispatchEP(), 1)
			dc, cc := c.configs(p)
			pair := [][]string{e.call(dispatchEP(), dc), e.experts(), e.call(combineEP(), cc)}
			compare := ref.Compare{Bits: true, PreReduced: cc.Str("algo") == "dedup"}
			e.run(1, pair...)
			e.checkDispatch(ref.Compare{})
			e.checkCombine(compare)
			e.poison(partOut, partScales, partRowOffsets, partSrcInfo, partExpertIDs, partScaleOffsets, partY, partCombined)
			pair = [][]string{e.call(dispatchEP(), dc), e.experts(), e.call(combineEP(), cc)}
			e.run(30, pair...)
			e.checkDispatch(ref.Compare{})
			e.checkCombine(compare)
		})
	}
}
