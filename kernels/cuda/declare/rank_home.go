package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// rowsParam declares where the senders of dispatch_rank store elements. With home they store them once all
// ranks have begun the call; scales and heads follow through a slot, after a fence. That pays for many tokens
// and on few SMs.
func rowsParam() kernels.Param {
	q := speedParam(kernels.Compile, "rows", "where senders store elements: slot, from which the receiver copies them; home: directly in the rows of the peer's output; staged: in a slot, and rows of the own rank in its output, while other warps of a block receive", "", "slot", "slot", "home", "staged")
	q.Before, q.Design = "slot", true
	return q
}

func storesHome(c ep.Config) bool { return c.Str("rows") == "home" }

func checkDispatchRankRows(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkDispatchRank(m, p, c), kernels.CheckWord(c, "rows", "slot", "home", "staged"))
}

// defaultDispatchRankHome returns the default among the configs with rows=home. Every block sends and
// receives.
func defaultDispatchRankHome(m ep.Machine, p ep.Problem) ep.Config {
	return homeOf(slotDispatchRank(m, p))
}

// startsDispatchRank returns the configs of startsRank and, with rows=home, configs with blocks
// that only receive, with larger units, and with more threads. If the default has rows=home, it also returns
// the default with rows=slot, because only that one writes outputs outside the symmetric heap.
func startsDispatchRank(m ep.Machine, p ep.Problem) []ep.Config {
	starts, slot := startsRank(slotDispatchRank)(m, p), slotDispatchRank(m, p)
	if storesHome(defaultDispatchRank(m, p)) {
		starts = append([]ep.Config{slot}, starts...)
	}
	c := homeOf(slot)
	few := c.With("wait_sms", "4")
	return append(starts, c, few, few.With("threads", "768"), few.With("unit", "2048"), c.With("unit", "2048"), c.With("threads", "1024"))
}
