package declare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// dispatchFinalHome declares a dispatch_final for few ranks: a large part of a token's rows then
// stays on the token's own rank.
func dispatchFinalHome() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "dispatch_final_home",
			Op:      ep.Dispatch,
			Layouts: byExpert,
			Doc:     "dispatch_final whose sender stores all rows that a token has on the token's own rank; rows of other ranks' tokens are copied. For few ranks.",
			Params: []kernels.Param{
				smsParam("8", "12", "16", "24", "32", "48", "64", "96", "132"),
				waitParam("completes what other ranks sent", "0", "2", "4", "6", "8", "12", "16", "24", "32", "48", "66", "84"),
				threadsParam("512", "768"),
				speedParam(kernels.Compile, "team", "warps that send one token together, so that tokens arrive one after the other; 1: each sends its own",
					"warps", "1", "1", "4", "8"),
				scalesParam(),
			},
			Check:   checkDispatchFinalHome,
			Default: defaultDispatchFinalHome,
			Starts:  startsDispatchFinalHome,
		},
		source: "final/dispatch_home.cuh",
		State:  finalState,
		defines: func(c ep.Config) []string {
			return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_TEAM", c, "team"),
				Define("EP_SCALES", Bit(c.Str("scales") == "tile"))}
		},
		compare:  inOrder,
		places:   true,
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesFinal("dispatch_final_home", c, 0) },
	}
}

func scalesParam() kernels.Param {
	return speedParam(kernels.Compile, "scales", "when FP8 scales go to the output: row (with their row) or tile (32 rows together, once all are here)",
		"", "row", "row", "tile")
}

func checkScales(p ep.Problem, c ep.Config) error {
	if c.Str("scales") != "row" && p.Dispatch != ep.FP8 {
		return fmt.Errorf("scales: %s has no FP8 scales, so %s has no meaning; use row", p.Dispatch, c.Str("scales"))
	}
	return kernels.CheckWord(c, "scales", "row", "tile")
}

func checkDispatchFinalHome(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFinalBlocks(m, p, c), checkScales(p, c),
		kernels.CheckRange(c, "team", 1, c.Int("threads")/Warp-1)) // at least one warp completes what a team sends
}

// defaultDispatchFinalHome returns a config without teams, which is legal with any number of SMs
// and threads. Whether teams are faster depends on both numbers: see startsDispatchFinalHome.
func defaultDispatchFinalHome(m ep.Machine, p ep.Problem) ep.Config {
	return ep.Config{Kernel: "dispatch_final_home", Values: map[string]ep.Value{
		"sms": number(fastSMs(m, p)), "wait_sms": "0", "threads": "512", "team": "1", "scales": "row",
	}}
}

// startsDispatchFinalHome returns configs with teams, with single warps in larger blocks, with
// other splits of the SMs, and with scales=tile. On 2 H200 with 132 SMs, teams of eight won at
// 1,024 and 4,096 tokens in both dtypes. On 24 SMs single warps took half the time of teams,
// because teams waited for their loads. 768 threads are not the default, because single warps in
// BF16 then spill registers on 4 and 8 ranks.
func startsDispatchFinalHome(m ep.Machine, p ep.Problem) []ep.Config {
	own, sms := defaultDispatchFinalHome(m, p), fastSMs(m, p)
	large, team := own.With("threads", "768"), own.With("team", "8")
	out := []ep.Config{team, team.With("threads", "768"), team.With("threads", "768").With("wait_sms", number(sms/4)),
		large, large.With("wait_sms", number(sms/2))}
	if p.Dispatch == ep.FP8 {
		for _, c := range slices.Clone(out) {
			out = append(out, c.With("scales", "tile"))
		}
	}
	return out
}
