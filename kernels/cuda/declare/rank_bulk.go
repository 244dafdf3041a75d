package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// rankCopyParam declares how dispatch_rank moves rows.
func rankCopyParam() kernels.Param {
	q := speedParam(kernels.Compile, "copy", "how rows are moved: vector, by loads and stores of all lanes; bulk, by asynchronous copies through shared memory, with some warps of a block sending while the others receive",
		"", "vector", "vector", "bulk")
	q.Before, q.Design = "vector", true
	return q
}

func rankUnitParam() kernels.Param {
	return speedParam(kernels.Compile, "unit", "message bytes that a warp moves at a time", "bytes", "512", "512", "1024", "2048", "4096", "8192")
}

// ringRank is the shared memory in bytes that the rings of a block have at most with copy=bulk.
const ringRank = 192 << 10

// rankStages returns the number of units in the ring of a warp.
func rankStages(c ep.Config) int { return min(ringRank/(c.Int("threads")/Warp)/c.Int("unit"), 16) }

func checkRankCopy(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case !isBulk(c):
		return kernels.CheckWord(c, "copy", "vector", "bulk")
	case before90(m.Arch):
		return fmt.Errorf("copy: bulk needs sm_90 or later and this is %s; use vector", m.Arch)
	case (c.Kernel == "combine_rank" || p.Dispatch == ep.FP8 && !TakesCast(c)) && c.Int("unit") > 2048:
		return fmt.Errorf("unit: %d bytes at a time do not fit into registers, in which they are cast or added; use at most 2048", c.Int("unit"))
	case rankStages(c) < 2:
		return fmt.Errorf("unit: rings of %d warps with two units of %d bytes each take more than %d bytes of shared memory; use fewer threads or a smaller unit",
			c.Int("threads")/Warp, c.Int("unit"), ringRank)
	}
	return nil
}

func definesRankBulk(c ep.Config) []string {
	if !isBulk(c) {
		return nil
	}
	return []string{Define("EP_BULK", 1), Define("EP_STAGES", rankStages(c))}
}

// bulkOf returns the config with copy=bulk.
func bulkOf(c ep.Config) ep.Config {
	return c.With("copy", "bulk").With("wait_sms", "0").With("threads", "512").With("unit", "2048")
}
