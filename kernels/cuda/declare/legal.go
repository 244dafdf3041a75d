package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Loopback is the link fingerprint of a machine on which several ranks share a GPU. It is part of
// the machine's key, so that the times of such a machine are never taken for times of a real node.
const Loopback = "loopback"

// Limits that the kernels are written for.
const (
	MaxRanks   = 8    // pointers in EpArgs, flags in EpControl
	MaxExperts = 1024 // counts that one block can poll and scan
	Warp       = 32
	MaxThreads = 1024 // of one block
)

// CheckProblem refuses problems that no kernel can run on this machine.
func CheckProblem(m ep.Machine, p ep.Problem) error {
	switch {
	case p.Nodes > 1:
		return fmt.Errorf("nodes: %d, but this backend drives the GPUs of one host; use --nodes 1, or --backend \"launch:... epbench-cuda rank\" (epbench docs multinode)", p.Nodes)
	case p.Ranks > MaxRanks:
		return fmt.Errorf("ranks: %d is more than the %d GPUs that one node's kernels can address", p.Ranks, MaxRanks)
	case p.Ranks > m.GPUs && m.Link != Loopback:
		return fmt.Errorf("ranks: %d need %d GPUs and here are %d; use --ranks %d, or start the worker with --loopback to let ranks share a GPU",
			p.Ranks, p.Ranks, m.GPUs, max(m.GPUs, 1))
	case p.Tokens > p.MaxTokens:
		return fmt.Errorf("tokens: %d is more than max-tokens %d, which the buffers hold; raise --max-tokens", p.Tokens, p.MaxTokens)
	}
	return checkShape(p)
}

// checkShape refuses shapes that no kernel can run, on one host or on several.
func checkShape(p ep.Problem) error {
	switch {
	case p.Experts > MaxExperts:
		return fmt.Errorf("experts: %d is more than the %d whose counts one block can scan", p.Experts, MaxExperts)
	case p.Hidden%8 != 0:
		return fmt.Errorf("hidden: %d is not a multiple of 8, one 16-byte vector of bf16", p.Hidden)
	}
	return nil
}

// checkNVFP4 refuses rows of NVFP4 that are not whole vectors.
func checkNVFP4(p ep.Problem) error {
	if p.Dispatch == ep.NVFP4 && p.Hidden%32 != 0 {
		return fmt.Errorf("hidden: %d is not a multiple of 32, one 16-byte vector of e2m1; the nearest is %d", p.Hidden, (p.Hidden+31)/32*32)
	}
	return nil
}

// maxBlocks returns how many blocks one rank may launch: one for each SM. Blocks that wait for
// each other must all be resident, and one block for each SM always fits. Whether more blocks
// would fit depends on the number of registers, which only the compiler knows; a session
// checks that.
//
// If ranks share a GPU, each may use half of an equal share of the SMs. A call that starts early
// (pdl=1) is resident at the same time as the call before it. A rank that has not begun the earlier
// call yet then needs the other half.
func maxBlocks(m ep.Machine, p ep.Problem) int {
	gpus := max(m.GPUs, 1)
	if ranks := (p.Ranks + gpus - 1) / gpus; ranks > 1 { // on the fullest GPU
		return m.SMs / (2 * ranks)
	}
	return m.SMs
}

// encodingOf returns the encoding in which one token is sent in the problem's dispatch
// dtype.
func encodingOf(p ep.Problem) dtype.Encoding { return dtype.Of(p.Dispatch, p.Hidden) }
