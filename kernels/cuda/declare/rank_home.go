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
	q := speedParam(kernels.Compile, "rows", "where senders store elements: slot, from which the receiver copies them; home: directly in the rows of the peer's output", "", "slot", "slot", "home")
	q.Before, q.Design = "slot", true
	return q
}

func storesHome(c ep.Config) bool { return c.Str("rows") == "home" }

func checkDispatchRankRows(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkDispatchRank(m, p, c), kernels.CheckWord(c, "rows", "slot", "home"))
}

// defaultDispatchRankHome returns the default among the configs with rows=home. Every block sends and
// receives.
func defaultDispatchRankHome(m ep.Machine, p ep.Problem) ep.Config {
	return defaultDispatchRank(m, p).With("rows", "home").With("wait_sms", "0").With("threads", "512").With("unit", "1024")
}

// startsDispatchRank returns the configs of startsRank and, with rows=home, configs with blocks
// that only receive, with larger units, and with more threads.
func startsDispatchRank(m ep.Machine, p ep.Problem) []ep.Config {
	c := defaultDispatchRankHome(m, p)
	few := c.With("wait_sms", "4")
	return append(startsRank(defaultDispatchRank)(m, p), c, few, few.With("threads", "768"), few.With("unit", "2048"), c.With("unit", "2048"), c.With("threads", "1024"))
}
