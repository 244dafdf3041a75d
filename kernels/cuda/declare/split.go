package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// splitParam declares whether a call is one launch, or two of which the first sends and the second receives. The two
// launches have grids of their own, because few SMs should send and many should receive. Between them the call
// occupies no SM.
func splitParam() kernels.Param {
	q := speedParam(kernels.Compile, kernels.ModeParam, "fused: one kernel sends and receives; split: one kernel sends and another receives", "", kernels.ModeFused, kernels.ModeFused, kernels.ModeSplit)
	q.Before = kernels.ModeFused
	return q
}

func recvParam() kernels.Param {
	q := speedParam(kernels.Launch, "recv_sms", "blocks of the receiving kernel with mode=split; 0 with mode=fused", "SMs", "0", "0", "32", "64", "132")
	q.Cost, q.Before = kernels.SMCost, "0"
	return q
}

func isSplit(c ep.Config) bool { return c.Str(kernels.ModeParam) == kernels.ModeSplit }

// definesSplit returns the option that compiles the two entries of a split call in place of the fused
// entry.
func definesSplit(c ep.Config) []string {
	if isSplit(c) {
		return []string{Define("EP_SPLIT", 1)}
	}
	return nil
}

// fused completes a config with mode=fused.
func fused(c ep.Config) ep.Config {
	return c.With(kernels.ModeParam, kernels.ModeFused).With("recv_sms", "0")
}

// split completes a config with mode=split: the receiving grid is as large as the sending one, and the
// parameters `unused` are 0.
func split(c ep.Config, unused ...string) ep.Config {
	c = c.With(kernels.ModeParam, kernels.ModeSplit).With("recv_sms", c.Values["sms"])
	for _, name := range unused {
		c = c.With(name, "0")
	}
	return c
}

// splitLaunches returns the launches of entry_send and entry_recv, each on a grid of its own. The receiver
// never starts early, because it would take SMs that the sender still needs.
func splitLaunches(entry string, c ep.Config) []Launch {
	send := launchOf(entry+"_send", c)
	recv := send
	recv.Entry, recv.Grid, recv.PDL = entry+"_recv", c.Int("recv_sms"), false
	recv.Params.SMs = recv.Grid
	return []Launch{send, recv}
}

// checkSplit checks mode and recv_sms. With mode=split the parameters `unused` must be 0, and all blocks
// of the receiving grid must be resident at once.
func checkSplit(m ep.Machine, p ep.Problem, c ep.Config, unused ...string) error {
	if !isSplit(c) {
		if c.Int("recv_sms") != 0 {
			return fmt.Errorf("recv_sms: %s, but with mode=fused one kernel sends and receives; use 0", c.Str("recv_sms"))
		}
		return kernels.CheckWord(c, kernels.ModeParam, kernels.ModeFused, kernels.ModeSplit)
	}
	for _, name := range unused {
		if c.Int(name) != 0 {
			return fmt.Errorf("%s: %s, but with mode=split one kernel sends and another receives; use 0", name, c.Str(name))
		}
	}
	return kernels.CheckRange(c, "recv_sms", 1, maxBlocks(m, p))
}
