package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// dispatchRankHome declares a dispatch_rank for many tokens: the sender stores elements directly in
// the peer's output, and only scales and heads pass through a slot.
func dispatchRankHome() Declaration {
	f := dispatchRank()
	f.Kernel.Name = "dispatch_rank_home"
	f.Kernel.Doc = "dispatch_rank whose senders store elements in the rows of the peer's output, once all ranks have begun the call; scales and heads follow after a fence. For many tokens or few SMs."
	f.Kernel.Params = []kernels.Param{
		smsParam("8", "12", "16", "24", "32", "64", "132"),
		waitParam("places scales and heads", "0", "1", "2", "4", "8", "12", "16"),
		threadsParam("512", "768", "1024"),
		unitParam("message"),
		inputParam(),
		pdlParam("0"),
	}
	f.Kernel.Default = defaultDispatchRankHome
	f.Kernel.Starts = startsDispatchRankHome
	f.source = "rank/dispatch_home.cuh"
	f.places = true
	f.Launches = func(_ ep.Problem, c ep.Config) []Launch { return launchesRank("dispatch_rank_home", c) }
	return f
}

// defaultDispatchRankHome lets every block send and receive.
func defaultDispatchRankHome(m ep.Machine, p ep.Problem) ep.Config {
	return ep.Config{Kernel: "dispatch_rank_home", Values: map[string]ep.Value{
		"sms": number(fastSMs(m, p)), "wait_sms": "0", "threads": "512", "unit": "1024", "input": "bf16", "pdl": "0",
	}}
}

// startsDispatchRankHome returns configs with blocks that only receive, with larger units, and with
// more threads.
func startsDispatchRankHome(m ep.Machine, p ep.Problem) []ep.Config {
	c := defaultDispatchRankHome(m, p)
	few := c.With("wait_sms", "4")
	return []ep.Config{few, few.With("threads", "768"), few.With("unit", "2048"), c.With("unit", "2048"), c.With("threads", "1024")}
}
