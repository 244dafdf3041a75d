package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// countParam declares which rank counts the rows of each expert. If the receivers count, ids and data are
// sent at once: each receiving block counts the ids that arrive.
func countParam() kernels.Param {
	q := speedParam(kernels.Compile, "count", "which rank counts the rows of each expert: sender, before it sends them; receiver, each of whose blocks counts the ids that arrive", "", "sender", "sender", "receiver")
	q.Before, q.Design = "sender", true
	return q
}

func countsReceiver(c ep.Config) bool { return c.Str("count") == "receiver" }

// checkCount checks count. With count=receiver the parameters `unused`, spelled name=value, have no
// effect and must have these values. The mode must be fused, and the marks of all tokens must fit a
// block's shared memory.
func checkCount(p ep.Problem, c ep.Config, unused ...string) error {
	if !countsReceiver(c) {
		return kernels.CheckWord(c, "count", "sender", "receiver")
	}
	if err := checkUnused(c, "count=receiver", append(unused, kernels.ModeParam+"="+kernels.ModeFused)...); err != nil {
		return err
	}
	if n := markBytes(p); n > marksShared {
		return fmt.Errorf("tokens: %d with %d experts take %d bytes of shared memory, more than %d; use at most %d, or count=sender",
			p.Tokens, p.Experts, n, marksShared, marksShared/4/p.Experts*32)
	}
	return nil
}

// marksShared is the largest shared memory, in bytes, of a block's marks (see markBytes). It fits
// every supported chip: sm_80 gives a block the least, 163 KiB, and the block's counts take up to
// 9 KiB of it.
const marksShared = 128 << 10

// markBytes returns the bytes of shared memory for a block's marks. There is one bit for each
// expert and token. It is set if the token selected the expert. The fullest rank gives the token
// count, not the capacity of the buffers, so that a table row for few tokens is legal at any
// capacity.
func markBytes(p ep.Problem) int { return (max(p.Tokens, 1) + 31) / 32 * 4 * p.Experts }

// definesUnits returns the options that say how many bytes a warp sends and copies at a time.
func definesUnits(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_SEND_BYTES", c, "send"), defineInt("EP_PART_BYTES", c, "part")}
}

// launchesIDs returns the launch of a call with count=receiver.
func launchesIDs(entry string, p ep.Problem, c ep.Config) []Launch {
	l := launchOf(entry, c)
	l.Shared = markBytes(p)
	l.Params.Own = LLParams{Receivers: c.Int("threads") / Warp / 2} // the other warps gather headers and copy
	return []Launch{l}
}

// defaultDispatchLLIDs returns the default among the configs with count=receiver.
func defaultDispatchLLIDs(m ep.Machine, p ep.Problem) ep.Config {
	return fused(defaultDispatchLL(m, p)).With("count", "receiver").With("receivers", "0").With("pause", "0").With("early", "0")
}
