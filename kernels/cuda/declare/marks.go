package declare

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// With count=receiver, a block keeps marks in shared memory: one bit for each expert and token. The bit is set
// if the token selected the expert.

// marksShared is the largest shared memory of a block's marks, in bytes. It fits
// every supported chip: sm_80 gives a block the least, 163 KiB, and the block's counts take up to
// 9 KiB of it.
const marksShared = 128 << 10

// markBytes returns the bytes of a block's marks. The fullest rank gives the token
// count, not the capacity of the buffers, so that a table row for few tokens is legal at any
// capacity.
func markBytes(p ep.Problem) int { return (max(p.Tokens, 1) + 31) / 32 * 4 * p.Experts }

// checkMarks refuses problems whose marks do not fit.
func checkMarks(p ep.Problem, c ep.Config) error {
	if n := markBytes(p); countsReceiver(c) && n > marksShared {
		return fmt.Errorf("tokens: %d with %d experts take %d bytes of shared memory, more than %d; use at most %d, or count=sender",
			p.Tokens, p.Experts, n, marksShared, marksShared/4/p.Experts*32)
	}
	return nil
}

// sharedMarks is the shared memory of a dispatch with the parameter count.
func sharedMarks(p ep.Problem, c ep.Config) int {
	if countsReceiver(c) {
		return markBytes(p)
	}
	return 0
}

// entryIDs returns the entry of a dispatch with the parameter count.
func entryIDs(kernel string) func(ep.Problem, ep.Config) string {
	return func(_ ep.Problem, c ep.Config) string { return kernel + optionIf(countsReceiver(c), "_ids") }
}

// definesIDs returns the compile options with count=receiver.
func definesIDs(c ep.Config) []string {
	return append(definesPieces(c), defineInput(c), "EP_COUNT_IDS=1")
}

// definesPieces returns the options that say how many bytes a warp sends and copies at a time.
func definesPieces(c ep.Config) []string {
	return []string{defineThreads(c), defineInt("EP_SEND_BYTES", c, "send"), defineInt("EP_PART_BYTES", c, "part")}
}
