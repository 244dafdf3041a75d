package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// dispatchLLIDs declares a dispatch_ll whose receivers count the tokens of each expert. It is a
// separate kernel, because a change of dispatch_ll's source would invalidate the table rows of
// dispatch_ll.
func dispatchLLIDs() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "dispatch_ll_ids",
			Op:      ep.Dispatch,
			Layouts: byExpert,
			Doc:     "dispatch_ll in which senders do not count: they send ids and data at once, and each receiving block counts the ids that arrive. For small batches.",
			Params: []kernels.Param{
				smsParam("16", "32", "64", "132"),
				threadsParam("256", "512", "1024"),
				speedParam(kernels.Compile, "send", "message bytes one sending warp converts and stores", "bytes", "512", "512", "1024"),
				speedParam(kernels.Compile, "part", "message bytes one receiving warp waits for and copies", "bytes", "512", "512", "1024"),
				pdlParam("0"),
			},
			Check:      checkDispatchLLIDs,
			Default:    defaultDispatchLLIDs,
			Overlapped: overlappedLL,
		},
		source: "ll/dispatch_ids.cuh",
		State:  llState,
		defines: func(c ep.Config) []string {
			return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_SEND_BYTES", c, "send"), defineInt("EP_PART_BYTES", c, "part")}
		},
		compare: inOrder,
		Launches: func(p ep.Problem, c ep.Config) []Launch {
			l := launchOf("dispatch_ll_ids", c)
			l.Shared = markBytes(p)
			l.Params.Own = LLParams{Receivers: c.Int("threads") / Warp / 2} // the other warps gather headers and copy
			return []Launch{l}
		},
	}
}

// marksShared is the largest shared memory, in bytes, of a block's marks (see markBytes). It fits
// every supported chip: sm_80 gives a block the least, 163 KiB, and the block's counts take up to
// 9 KiB of it.
const marksShared = 128 << 10

// markBytes returns the bytes of shared memory in which a block marks which tokens selected which
// experts, with one bit for each expert and token. It uses the token count of the fullest rank and
// not the capacity of the buffers, so that a table row for few tokens is legal at any capacity.
func markBytes(p ep.Problem) int { return (max(p.Tokens, 1) + 31) / 32 * 4 * p.Experts }

func checkDispatchLLIDs(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkFast(m, p, c); err != nil {
		return err
	}
	if n := markBytes(p); n > marksShared {
		return fmt.Errorf("tokens: %d with %d experts take %d bytes of shared memory, more than %d; use at most %d, or dispatch_ll",
			p.Tokens, p.Experts, n, marksShared, marksShared/4/p.Experts*32)
	}
	return cmp.Or(kernels.CheckWord(c, "send", "512", "1024", "2048"), kernels.CheckWord(c, "part", "512", "1024", "2048"), checkSwitch(c, "pdl"))
}

// defaultDispatchLLIDs returns the values of defaultDispatchLL for the parameters that both kernels
// have.
func defaultDispatchLLIDs(m ep.Machine, p ep.Problem) ep.Config {
	return asKernel(defaultDispatchLL(m, p), "dispatch_ll_ids", "receivers", "pause", "early")
}
