package declare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// finalState declares the memory of native/kernels/final, kernels for prefill, where a call has many tokens. A sender
// writes each token to its final place in the receiver's output. The enum FinCounter in final/layout.cuh lists the
// counters.
var finalState = State{Name: "final", anyDType: true, Regions: regionsFinal, Counters: func(ep.Problem) int { return 5 }}

// dispatchFinal declares the dispatch. The ranks first exchange how many tokens each expert gets. Then every rank
// knows the output row of each token, and writes tokens there.
func dispatchFinal() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_final", Op: ep.Dispatch, Layouts: byExpert,
			Doc: "Counts are sent first. Then each token is sent directly to its output row, and the receiver copies it to the rows of further experts. For large batches.",
			Params: []kernels.Param{
				design(wordParam("algo", "dedup: one message for each distinct rank of a token; direct: one for each expert; home: as dedup, and the sender stores all rows that a token has on its own rank", "dedup", "direct", "home")),
				smsParam("8", "12", "16", "24", "32", "48", "64", "96", "132"),
				waitParam("completes what arrived: copies rows to further experts, places scales", "0", "2", "5", "6", "8", "10", "12", "14", "16", "24", "32", "48", "66", "68", "84", "100"),
				threadsParam("512", "768", "1024"),
				added(speedParam(kernels.Compile, "team", "with algo=home, number of warps that send a token together, so that the tokens of a block arrive one after the other; 1: each warp sends tokens of its own",
					"warps", "1", "1", "4", "8")),
				wordParam("scales", "when FP8 scales are written to the output: row, with their row; tile, for 32 rows together after these rows have arrived", "row", "tile"),
			},
			Formerly: formerly("dispatch_final_home", "algo=home"),
			Check:    checkDispatchFinal, Default: defaultDispatchFinal, Starts: startsDispatchFinal,
		},
		ties:   []tie{{"algo=dedup", "team=1"}, {"algo=direct", "team=1"}},
		source: "final/dispatch.cuh",
		entry: func(_ ep.Problem, c ep.Config) string {
			return "dispatch_final" + optionIf(isHome(c), "_home")
		},
		State: finalState,
		defines: func(c ep.Config) []string {
			sender := defineSums(c)
			if isHome(c) {
				sender = defineInt("EP_TEAM", c, "team")
			}
			return []string{defineThreads(c), sender, Define("EP_SCALES", Bit(c.Str("scales") == "tile"))}
		},
		compare: ref.Compare{Ordered: true},
		places:  func(ep.Config) bool { return true },
	}
}

func isHome(c ep.Config) bool { return c.Str("algo") == "home" }

func combineFinal() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_final", Op: ep.Combine, Layouts: byExpert,
			Doc: "Warps take messages in turn and send each with one release; other blocks sum. With algo=dedup a rank sums its rows before it sends them. For large batches.",
			Params: []kernels.Param{
				fastAlgoParam, ownParam, smsParam("8", "12", "16", "20", "24", "32", "48", "64", "132"),
				waitParam("sums what arrived", "0", "3", "4", "5", "8", "9", "10", "12", "16", "24", "32", "48", "64"),
				threadsParam("384", "512", "768", "1024"),
				speedParam(kernels.Compile, "in_flight", "16-byte loads of a sending lane that wait in shared memory; 0: they wait in registers, 2 to 4 of them",
					"", "0", "0", "4", "8", "12"),
			},
			Formerly: formerlyPartial(formerly("combine_final_partial", "own=registers,in_flight=8")),
			Check:    checkCombineFinal, Default: defaultCombineFinal, Starts: startsCombineFinal,
		},
		source: "final/combine.cuh",
		shared: func(_ ep.Problem, c ep.Config) int { return ringBytes(c) },
		State:  finalState,
		defines: func(c ep.Config) []string {
			return []string{defineThreads(c), defineSums(c), defineInt("EP_IN_FLIGHT", c, "in_flight")}
		},
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchFinal(m, p) },
	}
}

// finalFP8Hidden is the largest hidden size with FP8. Each of a warp's 32 lanes holds four scales, and a scale is for
// 128 elements.
const finalFP8Hidden = 128 * 128

func checkFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if p.Dispatch == ep.FP8 && p.Hidden > finalFP8Hidden {
		return fmt.Errorf("hidden: %d is more than %d, the most for which one warp holds the scales; use the ll or ep kernels", p.Hidden, finalFP8Hidden)
	}
	return checkFast(m, p, c)
}

func checkDispatchFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if c.Str("scales") != "row" && p.Dispatch != ep.FP8 {
		return fmt.Errorf("scales: %s has no FP8 scales, so %s has no meaning; use row", p.Dispatch, c.Str("scales"))
	}
	return checkFinal(m, p, c)
}

// ringShared bounds the ring of a block in bytes. The ring is the buffer for loads that have not arrived yet. A block
// of sm_80 has only 163 KiB.
const ringShared = 160 << 10

func ringBytes(c ep.Config) int { return c.Int("threads") * 16 * c.Int("in_flight") }

func checkCombineFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := cmp.Or(checkFinal(m, p, c), kernels.CheckMultiple(c, "in_flight", 4, 0, 32, "the vectors that one step loads")); err != nil {
		return err
	}
	if ownRegisters(c) && c.Int("in_flight") == 0 {
		return fmt.Errorf("in_flight: 0, but with own=registers loads wait in shared memory; use 8")
	}
	if n := ringBytes(c); n > ringShared {
		return fmt.Errorf("in_flight: %s loads for each of %s threads take %d bytes of shared memory, more than %d; use %d",
			c.Str("in_flight"), c.Str("threads"), n, ringShared, ringShared/16/c.Int("threads")/4*4)
	}
	return nil
}

// defaultDispatchFinal returns a config in which three of eight SMs send. The other five copy arrived tokens to the
// rows of further experts. On 4 H200, from 1,024 tokens on, no other division was more than 4 % faster.
func defaultDispatchFinal(m ep.Machine, p ep.Problem) ep.Config {
	return with(dispatchFinal().plain(m, p), "wait_sms=5/8,threads=768")
}

// fewSMs is the number of SMs from which on a call can use the full speed of the link.
const fewSMs = 32

// startsDispatchFinal returns configs that every search measures: other divisions of the SMs, and for FP8 also
// scales=tile. This halved the time if one rank received most rows, but took 2 to 5 % more time if routing was even.
func startsDispatchFinal(m ep.Machine, p ep.Problem) []ep.Config {
	own := defaultDispatchFinal(m, p)
	splits := variants(own, "wait_sms=3/4")
	if fastSMs(m, p) < fewSMs {
		splits = variants(own, "wait_sms=1/2", "wait_sms=0")
	}
	out := append(slices.Concat(splits, inTiles(p, own), inTiles(p, splits...)), defaultDispatchFinalHome(m, p))
	return append(out, startsDispatchFinalHome(m, p)...)
}

func inTiles(p ep.Problem, configs ...ep.Config) (out []ep.Config) {
	if p.Dispatch != ep.FP8 {
		return nil
	}
	for _, c := range configs {
		out = append(out, c.With("scales", "tile"))
	}
	return out
}

// defaultDispatchFinalHome returns a config with algo=home that is legal with any number of SMs and threads.
func defaultDispatchFinalHome(m ep.Machine, p ep.Problem) ep.Config {
	return with(defaultDispatchFinal(m, p), "algo=home,wait_sms=0,threads=512")
}

// startsDispatchFinalHome returns configs with algo=home that every search measures. The default does not have 768
// threads: in BF16, single warps then spill registers on 4 and 8 ranks.
func startsDispatchFinalHome(m ep.Machine, p ep.Problem) []ep.Config {
	out := variants(defaultDispatchFinalHome(m, p),
		"team=8", "team=8,threads=768", "team=8,threads=768,wait_sms=1/4", "threads=768", "threads=768,wait_sms=1/2")
	return append(out, inTiles(p, out...)...)
}

// defaultCombineFinal returns a config with half of the SMs, enough for the full speed of the link with even routing.
// It adds a token's rows in top-k order, as the specification demands.
func defaultCombineFinal(m ep.Machine, p ep.Problem) ep.Config {
	all := fastSMs(m, p)
	sms := max(all/2, min(all, fewSMs))
	return with(combineFinal().plain(m, p).With("sms", number(sms)), "wait_sms=1/2,threads=768")
}

// startsCombineFinal returns configs that every search measures.
func startsCombineFinal(m ep.Machine, p ep.Problem) []ep.Config {
	all := combineFinal().plain(m, p)
	out := variants(all, "threads=768,wait_sms=3/8")
	if fastSMs(m, p) < fewSMs {
		out = append(out, variants(all, "threads=1024,in_flight=8,wait_sms=3/8", "threads=1024,in_flight=8,wait_sms=0")...)
	}
	if p.Ranks < 2 {
		return out
	}
	return append(append(out, defaultCombineFinalPartial(m, p)), startsCombineFinalPartial(m, p)...)
}

// defaultCombineFinalPartial returns the default with own=registers.
func defaultCombineFinalPartial(m ep.Machine, p ep.Problem) ep.Config {
	return with(combineFinal().plain(m, p), "own=registers,in_flight=8,threads=512,wait_sms=1/2")
}

// startsCombineFinalPartial returns configs with own=registers that every search measures. Their larger blocks spill
// registers on sm_80, so the default does not have them.
func startsCombineFinalPartial(m ep.Machine, p ep.Problem) []ep.Config {
	own, sms := defaultCombineFinalPartial(m, p).With("threads", "768"), fastSMs(m, p)
	if sms < fewSMs {
		return variants(own, "wait_sms=1/2", "wait_sms=0", "wait_sms=5/8")
	}
	return append(variants(own, "wait_sms=1/2", "wait_sms=5/8"), with(own.With("sms", number(max(sms/2, fewSMs))), "wait_sms=1/2"))
}

// regionsFinal lists the regions of the enum FinRegion in final/layout.cuh.
func regionsFinal(p ep.Problem) []Region {
	r, t, k, e := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.Experts)
	l := encodingOf(p)
	slots, rows := max(r, k), int64(0)
	if p.Dispatch == ep.FP8 {
		rows = int64(dtype.MaxRows(p))
	}
	return []Region{
		Zeroed("counts", 2*r*(e+1)*8),
		Zeroed("places", t*k*4),
		Poisoned("headers", r*t*k*8),
		Zeroed("scales", r*t*int64(l.TokenBytes()-l.ScaleOffset())),
		Zeroed("route", r*t*k*8),
		Zeroed("tokens", r*4),
		Zeroed("started", r*4),
		Zeroed("flags", t*slots*4),
		Zeroed("return", t*slots*int64(2*p.Hidden)),
		Zeroed("origins", rows*4),
	}
}
