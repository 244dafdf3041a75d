package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// expandState declares the memory of dispatch_expand and combine_expand: the memory of the
// kernels of layout rank, the rows sorted by source rank, and the table from which combine learns
// which rows belong to a token.
var expandState = State{Name: "expand", Regions: regionsExpand, Counters: func(ep.Problem) int { return 1 }}

// byExpert lists the layouts that these kernels serve. Layout expert is not in the list: on
// 2 H200, kernels that store rows directly at their final position were faster in every recorded
// search.
var byExpert = []ep.Layout{ep.LayoutExpert128}

// dispatchExpand declares dispatch_rank followed by a kernel that sorts the rows by expert.
func dispatchExpand() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "dispatch_expand",
			Op:      ep.Dispatch,
			Layouts: byExpert,
			Doc:     "dispatch_rank, then a kernel that copies each row to the rows of its experts.",
			Params: []kernels.Param{
				smsParam("16", "24", "32", "64", "132"),
				waitParam("copies what arrived to its rows by rank", "0", "8", "16", "32", "64"),
				threadsParam("512"),
				oneUnitParam("message"),
				pdlParam("0"),
			},
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(checkRank(m, p, c), kernels.CheckRange(c, "sms", 1, mostBlocks))
			},
			Default:    func(m ep.Machine, p ep.Problem) ep.Config { return defaultRank("dispatch_expand", m, p, 3) },
			Starts:     startsRank(func(m ep.Machine, p ep.Problem) ep.Config { return defaultRank("dispatch_expand", m, p, 3) }),
			Overlapped: overlappedLL,
		},
		source:   "rank/expand.cuh",
		State:    expandState,
		defines:  func(c ep.Config) []string { return append(definesRank(c), Define("EP_RAW", 0)) },
		compare:  inOrder,
		Launches: launchesExpand,
		Together: true,
	}
}

// combineExpand declares combine_masked on the rows of dispatch_expand.
func combineExpand() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "combine_expand",
			Op:      ep.Combine,
			Layouts: byExpert,
			Doc:     "combine_masked for the rows of dispatch_expand. algo=dedup sends the weights ahead and sums a rank's rows before they travel.",
			Params: []kernels.Param{
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				smsParam("16", "24", "32", "64", "132"),
				waitParam("adds what arrived", "0", "8", "16", "32", "64", "88"),
				threadsParam("512"),
				oneUnitParam("row"),
				pdlParam("0"),
			},
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(checkRank(m, p, c), kernels.CheckWord(c, "algo", "direct", "dedup"))
			},
			Default:    defaultCombineExpand,
			Starts:     startsRank(defaultCombineExpand),
			Overlapped: overlappedLL,
		},
		source: "masked/combine.cuh",
		State:  expandState,
		defines: func(c ep.Config) []string {
			return append(definesRank(c), Define("EP_DIRECT", Bit(!isDedup(c))), Define("RANK_INNER", 1))
		},
		compare:  func(c ep.Config) ref.Compare { return ref.Compare{Bits: true, Partial: partialOf(c)} },
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesRank("combine_masked", c) },
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config {
			return defaultRank("dispatch_expand", m, p, 3)
		},
	}
}

// defaultCombineExpand returns the default of combine_masked, because the device code is the same.
func defaultCombineExpand(m ep.Machine, p ep.Problem) ep.Config {
	c := defaultCombineMasked(m, p)
	c.Kernel = "combine_expand"
	return c
}

// launchesExpand returns the two launches of a call: dispatch_rank, then the expansion. The second
// starts when the first has ended, on the same number of SMs.
func launchesExpand(p ep.Problem, c ep.Config) []Launch {
	send := launchesRank("dispatch_rank", c)[0]
	expand := send
	expand.Entry, expand.PDL = "rank_expand", false
	expand.Params.TileTokens = dtype.RowPad(p)
	return []Launch{send, expand}
}

// oneUnitParam declares unitParam with only one value to search. It is for kernels that share
// device code with a kernel of another layout: the search of that kernel covers all values.
// Starts adds configs with other values.
func oneUnitParam(of string) kernels.Param {
	q := unitParam(of)
	q.Values = []ep.Value{"512"}
	return q
}

// mostBlocks is the largest grid of dispatch_expand, whose blocks exchange counts.
const mostBlocks = RoundBlocks

// regionsExpand lists RankRegion of rank/layout.cuh, MASKED_WEIGHTS of masked/layout.cuh,
// then RankInner of rank/inner.cuh.
func regionsExpand(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	l, rows := dtype.Of(p.Dispatch, p.Hidden), r*t
	return append(regionsMasked(p)[:5],
		Zeroed("rows", rows*int64(l.Payload)),
		Zeroed("scales", max(rows*int64(l.Scales*l.ScaleBytes), 4)),
		Zeroed("by-source", (r+1)*4),
		Zeroed("local-experts", rows*k*4),
		Zeroed("row-weights", rows*k*4),
		Zeroed("tokens", rows*8+t*4),
		Zeroed("slices", mostBlocks*int64(p.LocalExperts())*8),
		Zeroed("routes", rows*(1+k)*4+r*4),
	)
}
