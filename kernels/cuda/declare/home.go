package declare

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// teamParam declares the warps that send one token together with algo=home.
func teamParam() kernels.Param {
	q := speedParam(kernels.Compile, "team", "with algo=home, number of warps that send a token together, so that the tokens of a block arrive one after the other; 1: each warp sends tokens of its own",
		"warps", "1", "1", "4", "8")
	q.Before = "1"
	return q
}

// isHome reports whether the sender stores all rows that a token has on its own rank. That pays on few ranks,
// where a large part of a token's rows stays on its own rank. Rows of other ranks' tokens are copied.
func isHome(c ep.Config) bool { return c.Str("algo") == "home" }

func scalesParam() kernels.Param {
	return speedParam(kernels.Compile, "scales", "when FP8 scales are written to the output: row, with their row; tile, for 32 rows together after these rows have arrived",
		"", "row", "row", "tile")
}

func checkScales(p ep.Problem, c ep.Config) error {
	if c.Str("scales") != "row" && p.Dispatch != ep.FP8 {
		return fmt.Errorf("scales: %s has no FP8 scales, so %s has no meaning; use row", p.Dispatch, c.Str("scales"))
	}
	return kernels.CheckWord(c, "scales", "row", "tile")
}

// defaultDispatchFinalHome returns a config without teams, which is legal with any number of SMs
// and of threads. These two numbers decide whether teams are faster: see startsDispatchFinalHome.
func defaultDispatchFinalHome(m ep.Machine, p ep.Problem) ep.Config {
	return defaultDispatchFinal(m, p).With("algo", "home").With("wait_sms", "0").With("threads", "512")
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
