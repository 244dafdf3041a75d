package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// ownParam declares how a rank adds the rows of its own tokens. With own=registers every rank sends
// sums and no single rows. With algo=direct these sums are in f32.
func ownParam() kernels.Param {
	q := speedParam(kernels.Compile, "own", "what happens to the rows of a rank's own tokens: slot, they are written to a slot like the rows that are sent; registers, they are summed in registers, and every rank sends one sum for each token of another rank, in f32 with algo=direct",
		"", "slot", "slot", "registers")
	q.Before, q.Design = "slot", true
	return q
}

// ownReceivers declares how many warps sum and do not send, with own=registers.
func ownReceivers() kernels.Param {
	q := polledReceivers("0", "0", "4", "8", "12")
	q.Before = "0"
	return q
}

func ownRegisters(c ep.Config) bool { return c.Str("own") == "registers" }

// definesOwn returns the compile options of a config with own=registers.
func definesOwn(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), Define("EP_PARTIAL", Bit(isDedup(c)))}
}

// launchesOwn returns the launches of a config with own=registers, fused or split.
func launchesOwn(entry string, c ep.Config) []Launch {
	if isSplit(c) {
		return splitLaunches(entry, c)
	}
	l := launchOf(entry, c)
	l.Params.Own = LLParams{Receivers: c.Int("receivers")}
	return []Launch{l}
}

// checkOwn checks own, and the parameters that each of its values leaves unused.
func checkOwn(p ep.Problem, c ep.Config) error {
	if !ownRegisters(c) {
		if c.Int("receivers") != 0 {
			return fmt.Errorf("receivers: %s, but with own=slot all warps send; use 0", c.Str("receivers"))
		}
		return checkOwnRanks(p, c)
	}
	if err := cmp.Or(checkUnused(c, "own=registers", "wait_sms=0", "unit=512"), checkOwnRanks(p, c)); err != nil {
		return err
	}
	most := c.Int("threads")/Warp - 1 // at least one warp sends
	if isSplit(c) {
		most = 0 // one kernel sends and another receives
	}
	return kernels.CheckRange(c, "receivers", 0, most)
}

// checkOwnRanks checks the value of own. With own=registers there must be more than one rank.
func checkOwnRanks(p ep.Problem, c ep.Config) error {
	if ownRegisters(c) && p.Ranks < 2 {
		return fmt.Errorf("own: with %d rank there is no other rank to send sums to; use slot", p.Ranks)
	}
	return kernels.CheckWord(c, "own", "slot", "registers")
}

// formerlyPartial declares, for each of the former kernels in `all` that had a parameter `partial`,
// that its values f32 and bf16 are now algo=direct and algo=dedup.
func formerlyPartial(all map[string]kernels.Former) map[string]kernels.Former {
	for name, f := range all {
		if _, ok := f.Values["own"]; ok {
			f.Params = map[string]kernels.Respelled{"partial": {Name: "algo", Values: map[ep.Value]ep.Value{"f32": "direct", "bf16": "dedup"}}}
			all[name] = f
		}
	}
	return all
}
