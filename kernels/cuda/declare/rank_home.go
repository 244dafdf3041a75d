package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// rowsParam declares where the senders of dispatch_rank store elements. With rows=home they store elements in
// the peer's output, after all ranks have begun the call. Scales and heads follow through a slot, after a
// fence. rows=home is faster for many tokens and on few SMs.
func rowsParam() kernels.Param {
	q := speedParam(kernels.Compile, "rows", "where senders store elements: slot, from which the receiver copies them; home: directly in the rows of the peer's output; staged: in a slot, and rows of the own rank in its output, while other warps of a block receive", "", "slot", "slot", "home", "staged")
	q.Before, q.Design = "slot", true
	return q
}

func storesHome(c ep.Config) bool { return c.Str("rows") == "home" }

func checkDispatchRankRows(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkDispatchRank(m, p, c), kernels.CheckWord(c, "rows", "slot", "home", "staged"))
}

// localDispatchRank returns the default for outputs outside the symmetric heap. Long BF16 calls on a limited number of
// SMs have rows=staged. On 2 H100 a dispatch of 4,096 tokens then took 326 us on 24 SMs and 249 us on 64 SMs. The best
// config of rows=slot took 437 us and 270 us.
func localDispatchRank(m ep.Machine, p ep.Problem) ep.Config {
	c := slotDispatchRank(m, p)
	if p.Tokens <= longTokens || !limited(m, p) || p.Dispatch != ep.BF16 {
		return c
	}
	return widest(p, homeOf(c)).With("rows", "staged")
}

// startsDispatchRank returns the configs of startsRank and, with rows=home, configs with blocks
// that only receive, with larger units, and with more threads. If the default has rows=home, it first returns
// the default for outputs outside the symmetric heap.
func startsDispatchRank(m ep.Machine, p ep.Problem) []ep.Config {
	starts, slot := startsRank(slotDispatchRank)(m, p), slotDispatchRank(m, p)
	if storesHome(defaultDispatchRank(m, p)) {
		starts = append([]ep.Config{localDispatchRank(m, p), homeOf(slot).With("rows", "staged")}, starts...)
	}
	c := homeOf(slot)
	few := c.With("wait_sms", "4")
	return append(starts, c, few, few.With("threads", "768"), few.With("unit", "2048"), c.With("unit", "2048"), c.With("threads", "1024"))
}
