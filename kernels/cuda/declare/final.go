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

// finalState declares the memory of the kernels whose device code is in native/kernels/final. They
// are for prefill, where a call has many tokens. A dispatch sends each token to the ranks (GPUs)
// that hold its experts, and a combine brings the experts' outputs back. The kernels are called
// final because a sender writes each token to its final place in the receiver's output. The enum
// FinCounter in final/layout.cuh describes the counters.
var finalState = State{Name: "final", anyDType: true, Regions: regionsFinal, Counters: func(ep.Problem) int { return 5 }}

// dispatchFinal declares the dispatch. A rank first sends how many tokens each expert will get, so
// that all ranks know the row of each token. Then it writes each token directly to its row of the
// receiver's output.
func dispatchFinal() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_final", Op: ep.Dispatch, Layouts: byExpert,
			Doc: "Counts are sent first. Then each token is sent directly to its output row, and the receiver copies it to the rows of further experts. For large batches.",
			Params: []kernels.Param{
				// For a combine, algo changes how the output is rounded. For a dispatch it does not.
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

// isHome reports whether a config of dispatch_final has algo=home. The sender then writes all rows that its tokens
// have on its own rank. This is faster with few ranks, where many rows stay on the sender's rank.
func isHome(c ep.Config) bool { return c.Str("algo") == "home" }

// combineFinal declares the combine.
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

// finalFP8Hidden is the largest hidden size with FP8. A warp of 32 lanes holds the scales of a
// token: each lane holds four scales, and a scale is for 128 elements.
const finalFP8Hidden = 128 * 128

// checkFinal checks a config by the rules that are the same for both kernels.
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

// ringShared is the largest shared memory, in bytes, that the ring of a block may take. The ring is
// the buffer for loads that have not arrived yet. The limit is chosen for sm_80, on which a block
// has the least shared memory: 163 KiB.
const ringShared = 160 << 10

// ringBytes returns the size of the ring in bytes. Each thread has room for in_flight loads of 16
// bytes.
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

// defaultDispatchFinal returns a config in which three of every eight SMs send. The other five
// complete the tokens that arrive: they copy a token to the rows of further experts. On 4 H200, from
// 1,024 tokens on, no other division of the SMs was faster by more than 4 %.
func defaultDispatchFinal(m ep.Machine, p ep.Problem) ep.Config {
	return with(dispatchFinal().plain(m, p), "wait_sms=5/8,threads=768")
}

// fewSMs is a number of SMs. From fewSMs on, a call can use the full speed of the link. With fewer SMs, a call is
// limited by how much the SMs can load and store.
const fewSMs = 32

// startsDispatchFinal returns configs that every search measures. They divide the SMs in other ways
// between sending and completing. If one rank receives most rows, more SMs should complete. If there
// are few SMs, fewer should.
//
// With FP8, each division is also returned with scales=tile. This halved the time if one rank
// received most rows, and saved a third of it with few SMs. It took 2 to 5 % more time if all ranks
// received equally many rows.
func startsDispatchFinal(m ep.Machine, p ep.Problem) []ep.Config {
	own := defaultDispatchFinal(m, p)
	splits := variants(own, "wait_sms=3/4")
	if fastSMs(m, p) < fewSMs {
		splits = variants(own, "wait_sms=1/2", "wait_sms=0")
	}
	out := append(slices.Concat(splits, inTiles(p, own), inTiles(p, splits...)), defaultDispatchFinalHome(m, p))
	return append(out, startsDispatchFinalHome(m, p)...)
}

// inTiles returns the configs with scales=tile. It returns nil if the tokens are not sent in FP8.
func inTiles(p ep.Problem, configs ...ep.Config) (out []ep.Config) {
	if p.Dispatch != ep.FP8 {
		return nil
	}
	for _, c := range configs {
		out = append(out, c.With("scales", "tile"))
	}
	return out
}

// defaultDispatchFinalHome returns a config with algo=home in which each warp sends its own tokens.
// Such a config is legal with any number of SMs and threads. Configs in which several warps send a
// token together (a team) can be faster: see startsDispatchFinalHome.
func defaultDispatchFinalHome(m ep.Machine, p ep.Problem) ep.Config {
	return with(defaultDispatchFinal(m, p), "algo=home,wait_sms=0,threads=512")
}

// startsDispatchFinalHome returns configs with algo=home that every search measures. In some of
// them, a team of eight warps sends a token. In others, each warp sends its own tokens. On 2 H200
// with 132 SMs, teams were faster at 1,024 and 4,096 tokens, in BF16 and in FP8. With 24 SMs they
// took twice as long as single warps, because they waited for their loads. The default config does
// not have 768 threads, because the code for single warps in BF16 then spills registers on 4 and 8
// ranks.
func startsDispatchFinalHome(m ep.Machine, p ep.Problem) []ep.Config {
	out := variants(defaultDispatchFinalHome(m, p),
		"team=8", "team=8,threads=768", "team=8,threads=768,wait_sms=1/4", "threads=768", "threads=768,wait_sms=1/2")
	return append(out, inTiles(p, out...)...)
}

// defaultCombineFinal returns a config with half of the SMs. If every rank sends the same amount,
// half of the SMs are enough for the full speed of the link. The config adds a token's rows in the
// order of its top-k. The result then has exactly the bits that the specification demands.
func defaultCombineFinal(m ep.Machine, p ep.Problem) ep.Config {
	all := fastSMs(m, p)
	sms := max(all/2, min(all, fewSMs))
	return with(combineFinal().plain(m, p).With("sms", number(sms)), "wait_sms=1/2,threads=768")
}

// startsCombineFinal returns configs that every search measures. One of them has all SMs: it is good
// if a rank reads and sums more than it sends. If there are few SMs, two others let each thread have
// eight loads outstanding. In one of these two, some blocks only sum.
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

// defaultCombineFinalPartial returns the default among the configs with own=registers, in which a
// rank sums rows before it sends them. With few SMs, 8 was the fastest value of in_flight. It is
// legal with every number of threads: 1,024 threads take 128 KiB of shared memory.
func defaultCombineFinalPartial(m ep.Machine, p ep.Problem) ep.Config {
	return with(combineFinal().plain(m, p), "own=registers,in_flight=8,threads=512,wait_sms=1/2")
}

// startsCombineFinalPartial returns configs with own=registers that every search measures. They
// divide the SMs in other ways between sending and summing, and they have larger blocks. The default
// config does not have larger blocks, because on sm_80 these spill registers.
func startsCombineFinalPartial(m ep.Machine, p ep.Problem) []ep.Config {
	own, sms := defaultCombineFinalPartial(m, p).With("threads", "768"), fastSMs(m, p)
	if sms < fewSMs {
		return variants(own, "wait_sms=1/2", "wait_sms=0", "wait_sms=5/8")
	}
	return append(variants(own, "wait_sms=1/2", "wait_sms=5/8"), with(own.With("sms", number(max(sms/2, fewSMs))), "wait_sms=1/2"))
}

// regionsFinal lists the regions in the order of the enum FinRegion in final/layout.cuh.
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
