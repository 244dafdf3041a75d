package cuda

import (
	"fmt"

	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/tune/ep"
)

// Loopback is the link fingerprint of a machine on which several ranks share
// a GPU. It is part of the machine's key, so that its times are never taken
// for those of a real node.
const Loopback = "loopback"

// Bounds of what the kernels are written for.
const (
	maxRanks   = 8    // pointers in EpArgs, flags in EpControl
	maxExperts = 1024 // counts that one block can poll and scan
	warp       = 32
	maxThreads = 1024 // of one block
)

// checkProblem refuses what no family can run here.
func checkProblem(m ep.Machine, p ep.Problem) error {
	switch {
	case p.Nodes > 1:
		return fmt.Errorf("nodes: %d, the kernels for more than one node are not built yet; use --nodes 1", p.Nodes)
	case p.Ranks > maxRanks:
		return fmt.Errorf("ranks: %d is more than the %d GPUs that one node's kernels can address", p.Ranks, maxRanks)
	case p.Ranks > m.GPUs && m.Link != Loopback:
		return fmt.Errorf("ranks: %d need %d GPUs and here are %d; use --ranks %d, or start the worker with --loopback to let ranks share a GPU",
			p.Ranks, p.Ranks, m.GPUs, max(m.GPUs, 1))
	case p.Experts > maxExperts:
		return fmt.Errorf("experts: %d is more than the %d whose counts one block can scan", p.Experts, maxExperts)
	case p.Hidden%8 != 0:
		return fmt.Errorf("hidden: %d is not a multiple of 8, one 16-byte vector of bf16", p.Hidden)
	case p.Tokens > p.MaxTokens:
		return fmt.Errorf("tokens: %d is more than max-tokens %d, what the buffers hold", p.Tokens, p.MaxTokens)
	}
	return nil
}

// checkHiddenTile refuses a hidden size that a kernel's work unit does not
// tile; unit says what the unit is.
func checkHiddenTile(p ep.Problem, multiple int, unit string) error {
	if p.Hidden%multiple != 0 {
		return fmt.Errorf("hidden: %d is not a multiple of %d, %s; the nearest is %d",
			p.Hidden, multiple, unit, (p.Hidden+multiple-1)/multiple*multiple)
	}
	return nil
}

// checkThreads wants c's parameter name to be a whole number of warps within
// lo and hi.
func checkThreads(c ep.Config, name string, lo, hi int) error {
	n := c.Int(name)
	if n < lo || n > min(hi, maxThreads) || n%warp != 0 {
		return fmt.Errorf("%s: %s is not a multiple of %d from %d to %d", name, c.Values[name], warp, lo, min(hi, maxThreads))
	}
	return nil
}

// checkRange wants c's parameter name to be a number from lo to hi.
func checkRange(c ep.Config, name string, lo, hi int) error {
	n, ok := c.Values[name].Int()
	if !ok || n < lo || n > hi {
		return fmt.Errorf("%s: %s is not a number from %d to %d", name, c.Values[name], lo, hi)
	}
	return nil
}

// checkSMs wants c's parameter name, a number of blocks, to be at least lo
// and at most what is resident at once.
func checkSMs(m ep.Machine, p ep.Problem, c ep.Config, name string, lo int) error {
	hi := maxBlocks(m, p)
	n := c.Int(name)
	if n > hi {
		return fmt.Errorf("%s: %d blocks cannot all be resident: %d SMs for each rank, one block an SM", name, n, hi)
	}
	if n < lo {
		return fmt.Errorf("%s: %s is below %d, the fewest blocks that hold every role", name, c.Values[name], lo)
	}
	return nil
}

// maxBlocks is how many blocks of a spinning grid one rank may launch: one an
// SM, since blocks that wait for each other must all be resident and one of
// any size always fits. Two small ones would fit as well, but how many is known
// to the compiler only; a session still checks the true occupancy. Where ranks
// share a GPU each has half of an equal share: a call launched early (pdl) sits
// beside the one it follows, and must not take the SMs that a peer still needs
// to begin that one.
func maxBlocks(m ep.Machine, p ep.Problem) int {
	if n := sharing(m, p); n > 1 {
		return m.SMs / (2 * n)
	}
	return m.SMs
}

// sharing is the number of ranks on the fullest GPU.
func sharing(m ep.Machine, p ep.Problem) int {
	gpus := max(m.GPUs, 1)
	return (p.Ranks + gpus - 1) / gpus
}

// layout is one token in the problem's dispatch format.
func layout(p ep.Problem) formats.Layout { return formats.Of(p.Dispatch, p.Hidden) }
