package declare

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Loopback marks a machine on which several ranks share a GPU: ep.Machine.Link then has this value. The link is part of
// the machine's key. So times of a shared GPU never count as times of a real node.
const Loopback = "loopback"

// Limits that the kernels are written for.
const (
	MaxRanks   = 8    // pointers in EpArgs, flags in EpControl
	MaxExperts = 1024 // counts that one block can poll and scan
	Warp       = 32
	MaxThreads = 1024 // of one block
)

// Check returns why a config is illegal, or nil. A legal config sets exactly the declared parameters.
func (f Declaration) Check(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := cmp.Or(f.Kernel.CheckLayout(p.Layout), kernels.CheckNames(c, f.Kernel.Params)); err != nil {
		return err
	}
	return cmp.Or(checkWords(c, f.Kernel.Params), checkTies(c, slices.Concat(f.ties, sharedTies)), f.Kernel.Check(m, p, c))
}

func checkWords(c ep.Config, params []kernels.Param) error {
	for _, q := range params {
		var legal []string
		switch {
		case q.Name == "send" || q.Name == "part" || q.Name == "unit":
			legal = []string{"512", "1024", "2048"}
		case slices.Equal(q.Values, []ep.Value{"0", "1"}) || !slices.ContainsFunc(q.Values, isNumber):
			for _, v := range q.Values {
				legal = append(legal, string(v))
			}
		default:
			continue
		}
		if err := kernels.CheckWord(c, q.Name, legal...); err != nil {
			return err
		}
	}
	return nil
}

func isNumber(v ep.Value) bool {
	_, ok := v.Int()
	return ok
}

// A tie names the value of one parameter in `when`. With this value, the parameters in `then` have no effect. They must
// have the values in `then`. Example: {"mode=split", "receivers=0,pause=0"}.
type tie struct{ when, then string }

var sharedTies = []tie{{"mode=fused", "recv_sms=0"}, {"own=slot", "receivers=0"}}

func checkTies(c ep.Config, ties []tie) error {
	for _, t := range ties {
		if !holds(c, t.when) {
			continue
		}
		for only := range strings.SplitSeq(t.then, ",") {
			name, value, _ := strings.Cut(only, "=")
			if v, has := c.Values[name]; has && string(v) != value {
				return fmt.Errorf("%s: %s has no meaning with %s; use %s", name, v, t.when, value)
			}
		}
	}
	return nil
}

type span struct {
	name   string
	lo, hi int
}

func checkSpans(c ep.Config, spans ...span) error {
	for _, s := range spans {
		if _, has := c.Values[s.name]; !has {
			continue
		}
		if err := kernels.CheckRange(c, s.name, s.lo, s.hi); err != nil {
			return err
		}
	}
	return nil
}

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

func checkShape(p ep.Problem) error {
	switch {
	case p.Experts > MaxExperts:
		return fmt.Errorf("experts: %d is more than the %d whose counts one block can scan", p.Experts, MaxExperts)
	case p.Hidden%8 != 0:
		return fmt.Errorf("hidden: %d is not a multiple of 8, one 16-byte vector of bf16", p.Hidden)
	}
	return nil
}

func checkNVFP4(p ep.Problem) error {
	if p.Dispatch == ep.NVFP4 && p.Hidden%32 != 0 {
		return fmt.Errorf("hidden: %d is not a multiple of 32, one 16-byte vector of e2m1; the nearest is %d", p.Hidden, (p.Hidden+31)/32*32)
	}
	return nil
}

// maxFastTokens is the largest max-tokens of the ll and final kernels: a header has 20 bits for a position.
const maxFastTokens = 1<<20 - 1

// checkPolled checks the rules of all kernels that send headers. Errors call the kernel `name`, and advise to use
// `instead`.
func checkPolled(p ep.Problem, name, instead string) error {
	switch {
	case p.Dispatch != ep.BF16 && p.Dispatch != ep.FP8:
		return fmt.Errorf("dtype: %s sends bf16 and fp8, not %s; use %s", name, p.Dispatch, instead)
	case p.SharedExpert:
		return fmt.Errorf("shared-expert: %s does not fuse it; use %s", name, instead)
	case p.SkipA2A:
		return fmt.Errorf("skip-a2a: %s always sends; use %s", name, instead)
	case p.MaxTokens > maxFastTokens:
		return fmt.Errorf("max-tokens: %d is more than %d, the largest position that a header holds", p.MaxTokens, maxFastTokens)
	}
	return nil
}

// checkFast checks the rules that the ll, final, rank and masked kernels have in common.
func checkFast(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := CheckProblem(m, p); err != nil {
		return err
	}
	if err := checkPolled(p, c.Kernel, "the ep kernels"); err != nil {
		return err
	}
	switch {
	case TakesCast(c) && p.Dispatch != ep.FP8:
		return fmt.Errorf("input: tokens that the caller cast to fp8 cannot be sent as %s; use input=bf16", p.Dispatch)
	case (holds(c, "own=registers") || holds(c, "own=team")) && p.Ranks < 2:
		return fmt.Errorf("own: with %d rank there is no other rank to send sums to; use slot", p.Ranks)
	}
	return cmp.Or(checkMarks(p, c), checkSMs(m, p, c, 1), checkThreads(c, 64), checkFastSpans(m, p, c))
}

func checkFastSpans(m ep.Machine, p ep.Problem, c ep.Config) error {
	warps := c.Int("threads") / Warp
	if holds(c, "mode=split") {
		return checkSpans(c, span{"recv_sms", 1, maxBlocks(m, p)})
	}
	return checkSpans(c,
		span{"wait_sms", 0, c.Int("sms") - 1}, // at least one block sends
		span{"receivers", 0, warps - 1},       // at least one warp sends
		span{"team", 1, warps - 1},            // at least one warp completes
		span{"pause", 0, 100_000})
}

// marksShared is the largest number of bytes that a block's marks may take in shared memory. There is a mark for each
// expert and token: one bit, which is 1 if the token selected the expert. A block of sm_80 has only 163 KiB.
const marksShared = 128 << 10

// markBytes returns the bytes that the marks of a block take. The result does not depend on max-tokens, so that a config
// stays legal with larger buffers.
func markBytes(p ep.Problem) int { return (max(p.Tokens, 1) + 31) / 32 * 4 * p.Experts }

func checkMarks(p ep.Problem, c ep.Config) error {
	if n := markBytes(p); holds(c, "count=receiver") && n > marksShared {
		return fmt.Errorf("tokens: %d with %d experts take %d bytes of shared memory, more than %d; use at most %d, or count=sender",
			p.Tokens, p.Experts, n, marksShared, marksShared/4/p.Experts*32)
	}
	return nil
}

// maxBlocks returns how many blocks one rank may launch. Blocks that wait for each other must all be resident, and one
// block on each SM always fits.
//
// If n ranks share a GPU, each gets 1/(2n) of the SMs. With pdl=1, the rank's previous call may need as many SMs again.
func maxBlocks(m ep.Machine, p ep.Problem) int {
	gpus := max(m.GPUs, 1)
	if ranks := (p.Ranks + gpus - 1) / gpus; ranks > 1 { // on the fullest GPU
		return m.SMs / (2 * ranks)
	}
	return m.SMs
}

func fastSMs(m ep.Machine, p ep.Problem) int { return max(maxBlocks(m, p), 1) }

func checkThreads(c ep.Config, lo int) error {
	return kernels.CheckMultiple(c, "threads", Warp, lo, MaxThreads, "a warp")
}

func checkSMs(m ep.Machine, p ep.Problem, c ep.Config, lo int) error {
	n, hi := c.Int("sms"), maxBlocks(m, p)
	if n > hi {
		return fmt.Errorf("sms: %d blocks cannot all be resident: each rank has %d SMs, with one block on each", n, hi)
	}
	if n < lo {
		return fmt.Errorf("sms: %s is below %d, the fewest blocks that the kernel's roles need", c.Values["sms"], lo)
	}
	return nil
}

func before90(arch string) bool {
	n, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af"))
	return err == nil && n < 90
}

func encodingOf(p ep.Problem) dtype.Encoding { return dtype.Of(p.Dispatch, p.Hidden) }
