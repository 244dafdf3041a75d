package declare

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// finalState declares the memory of the kernels in native/kernels/final. They are for prefill, where a call has many
// tokens. A sender writes each token directly to the token's row in the receiver's output. The enums FinRegion and
// FinCounter in final/layout.cuh list the regions and the counters.
var finalState = State{
	Name: "final", anyDType: true, ordered: true, Counters: func(ep.Problem) int { return 5 },
	regions: func(z sizes) []Region {
		slots := z.tokens * max(z.ranks, z.topK)
		return []Region{
			Zeroed("counts", 2*z.ranks*(z.experts+1)*8),
			Zeroed("places", z.tokens*z.topK*4),
			Poisoned("headers", z.ranks*z.tokens*z.topK*8),
			Zeroed("scales", z.ranks*z.tokens*(z.token-int64(z.encoding.ScaleOffset()))),
			Zeroed("route", z.ranks*z.tokens*z.topK*8),
			Zeroed("tokens", z.ranks*4),
			Zeroed("started", z.ranks*4),
			Zeroed("flags", slots*4),
			Zeroed("return", slots*z.row),
			Zeroed("origins", z.rows*4*int64(Bit(z.encoding.DType == ep.FP8))),
		}
	},
}

// finalKernels declares a dispatch and a combine.
func finalKernels() []Declaration {
	return []Declaration{{
		Kernel: kernels.Kernel{
			Name: "dispatch_final", Op: ep.Dispatch, Layouts: byExpert, Check: checkFinal,
			Doc: "Counts are sent first. Then each token is sent directly to its output row, and the receiver copies it to the rows of further experts. For large batches.",
			Params: params("algo/final", "sms 8 12 16 24 32 48 64 96 *132",
				"wait_sms/complete *0 2 5 6 8 10 12 14 16 24 32 48 66 68 84 100", "threads 512 768 *1024", "team", "scales"),
			Formerly: formerly("dispatch_final_home", "algo=home"),
		},
		ties:   []tie{{"algo=dedup", "team=1"}, {"algo=direct", "team=1"}},
		source: "final/dispatch.cuh", entry: "dispatch_final algo=home?_home", State: finalState, places: "always",
		macros: "algo=home?EP_TEAM=team !algo=home?EP_DIRECT=algo=direct EP_SCALES=scales=tile",
		values: dispatchRulesFinal.list, starts: dispatchStartsFinal.over(dispatchRulesFinal),
	}, {
		Kernel: kernels.Kernel{
			Name: "combine_final", Op: ep.Combine, Layouts: byExpert, Check: checkFinal,
			Doc: "Warps take messages in turn and send each with one release; other blocks sum. With algo=dedup a rank sums its rows before it sends them. For large batches.",
			Params: params("algo/sum", "own/team", "sms 8 12 16 20 24 32 48 64 *132", "wait_sms/sum *0 3 4 5 8 9 10 12 16 24 32 48 64",
				"threads 384 512 768 *1024", "in_flight/ring"),
			Formerly: formerly("combine_final_partial", "own=registers,in_flight=8"),
		},
		ties:   []tie{{"own=team", "algo=dedup,in_flight=0"}},
		source: "final/combine.cuh", entry: "combine_final own=team?_team", State: finalState,
		macros: sumMacros + " own=team?EP_PARTIAL=algo=dedup own=team?EP_TEAMS EP_IN_FLIGHT=in_flight",
		// Half of the SMs are enough for the full speed of the link with even routing.
		values: rules{{"sms>32 !sms>64", "sms=32"}, {"sms>64", "sms=1/2"}, {"", "wait_sms=1/2,threads=768"}}.list,
		starts: combineStartsFinal.lists,
	}}
}

// finalFP8Hidden limits the hidden size with FP8. Each of a warp's 32 lanes holds four scales, and a scale is for
// 128 elements.
const finalFP8Hidden = 128 * 128

// ringShared bounds the ring of a block in bytes, if own is not team. The ring is the buffer for loads that have not
// arrived yet. A block of sm_80 has only 163 KiB.
const ringShared = 160 << 10

// ringBytes returns the bytes of dynamic shared memory of a block of combine_final.
func ringBytes(p ep.Problem, c ep.Config) int {
	if holds(c, "own=team") {
		return teamBytes(p, c)
	}
	return c.Int("threads") * 16 * c.Int("in_flight")
}

func checkFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case holds(c, "scales=tile") && p.Dispatch != ep.FP8:
		return fmt.Errorf("scales: %s has no FP8 scales, so tile has no meaning; use row", p.Dispatch)
	case p.Dispatch == ep.FP8 && p.Hidden > finalFP8Hidden:
		return fmt.Errorf("hidden: %d is more than %d, the most for which one warp holds the scales; use the ll or ep kernels", p.Hidden, finalFP8Hidden)
	}
	if err := checkFast(m, p, c); err != nil || c.Str("scales") != "" { // only a dispatch has scales
		return err
	}
	if err := kernels.CheckMultiple(c, "in_flight", 4, 0, 32, "the vectors that one step loads"); err != nil {
		return err
	}
	switch n := c.Int("threads") * 16 * c.Int("in_flight"); {
	case holds(c, "own=registers") && n == 0:
		return fmt.Errorf("in_flight: 0, but with own=registers loads wait in shared memory; use 8")
	case holds(c, "own=team"):
		return checkTeams(m, p, c)
	case n > ringShared:
		return fmt.Errorf("in_flight: %s loads for each of %s threads take %d bytes of shared memory, more than %d; use %d",
			c.Str("in_flight"), c.Str("threads"), n, ringShared, ringShared/16/c.Int("threads")/4*4)
	}
	return nil
}

// Limits of own=team. final/combine_team.cuh has the same.
const (
	teamShared = 224 << 10 // bytes of shared memory for the rings of a block's teams
	teamPart   = 3584      // bytes of a row that one warp adds
	mostTeams  = 8
	leastRows  = 4 // of a team in shared memory
	mostRows   = 6
)

// teamsOf returns the number of teams in a block with own=team, and the warps of one team. One of these warps loads
// rows, and the others add them. One more warp of the block serves all teams.
func teamsOf(p ep.Problem, c ep.Config) (teams, warps int) {
	warps = (2*p.Hidden+teamPart-1)/teamPart + 1
	return min((c.Int("threads")/Warp-1)/warps, mostTeams, teamShared/(leastRows*2*p.Hidden)), warps
}

// teamBytes returns the bytes of the rings of all teams in a block.
func teamBytes(p ep.Problem, c ep.Config) int {
	teams, _ := teamsOf(p, c)
	if teams == 0 {
		return 0
	}
	return teams * min(mostRows, teamShared/(teams*2*p.Hidden)) * 2 * p.Hidden
}

func checkTeams(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch teams, warps := teamsOf(p, c); {
	case before90(m.Arch):
		return fmt.Errorf("own: team needs sm_90 or later and this is %s; use registers", m.Arch)
	case 2*p.Hidden > teamShared/leastRows:
		return fmt.Errorf("hidden: own=team allows at most %d, not %d; use own=registers", teamShared/leastRows/2, p.Hidden)
	case teams == 0:
		return fmt.Errorf("threads: %s are fewer than the %d of one team and the warp that signals; use %d", c.Str("threads"), (warps+1)*Warp, (warps+1)*Warp)
	}
	return nil
}

// dispatchRulesFinal gives default values: three of eight SMs send, and the other five copy arrived tokens to the rows
// of further experts. On 4 H200, from 1,024 tokens on, no other division was more than 4 % faster.
var dispatchRulesFinal = rules{{"", "wait_sms=5/8,threads=768"}}

// homeFinal lists values with algo=home that are legal with any number of SMs and threads. In BF16 with
// team=1, blocks of 768 threads spill registers on 4 and 8 ranks.
const homeFinal = "algo=home,wait_sms=0,threads=512"

// dividedFinal and homesFinal give configs that every search measures: other divisions of the SMs, and algo=home.
var (
	dividedFinal = rules{{"sms>31", "wait_sms=3/4"}, {"!sms>31", "wait_sms=1/2"}, {"!sms>31", "wait_sms=0"}}
	homesFinal   = each(homeFinal, "team=8", "team=8,threads=768", "team=8,threads=768,wait_sms=1/4", "threads=768",
		"threads=768,wait_sms=1/2")
	dispatchStartsFinal = slices.Concat(dividedFinal, inTiles(rules{{}}), inTiles(dividedFinal), rules{{"", homeFinal}}, homesFinal, inTiles(homesFinal))
)

// inTiles returns the rules of r with scales=tile, for FP8 only. scales=tile halved the time of a call if one rank
// received most rows. With even routing, calls took 2 to 5 % more time.
func inTiles(r rules) rules { return r.when("fp8").plus("scales=tile") }

const (
	registersFinal = "own=registers,in_flight=8,"
	teamFinal      = "own=team,algo=dedup,wait_sms=0,"
)

// combineStartsFinal gives configs that every search measures. With own=registers, blocks of 768 threads spill
// registers on sm_80.
var combineStartsFinal = rules{
	{"", "threads=768,wait_sms=3/8"},
	{"!sms>31", "threads=1024,in_flight=8,wait_sms=3/8"},
	{"!sms>31", "threads=1024,in_flight=8,wait_sms=0"},
	{"ranks>1", registersFinal + "threads=512,wait_sms=1/2"},
	{"ranks>1", registersFinal + "threads=768,wait_sms=1/2"},
	{"ranks>1 !sms>31", registersFinal + "threads=768,wait_sms=0"},
	{"ranks>1", registersFinal + "threads=768,wait_sms=5/8"},
	{"ranks>1 sms>31 !sms>64", registersFinal + "threads=768,sms=32,wait_sms=1/2"},
	{"ranks>1 sms>64", registersFinal + "threads=768,sms=1/2,wait_sms=1/2"},
	{"ranks>1 reduced bulk", teamFinal + "threads=512"},
	{"ranks>1 reduced bulk", teamFinal + "threads=672"}, // four teams with hidden 7168
	{"ranks>1 reduced bulk sms>64", teamFinal + "threads=672,sms=1/2"},
}
