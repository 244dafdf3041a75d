package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// finalState declares the memory of the kernels in native/kernels/final, whose senders store each
// token at its final place. Its counters are FinCounter of final/layout.cuh.
var finalState = State{Name: "final", anyDType: true, Regions: regionsFinal, Counters: func(ep.Problem) int { return 5 }}

// finalFP8Hidden is the largest hidden size: each of 32 lanes keeps the scales of four groups of 128
// elements.
const finalFP8Hidden = 128 * 128

// dispatchFinal declares the dispatch for prefill: counts are sent first, then each token is
// stored directly in its row of the output.
func dispatchFinal() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "dispatch_final",
			Op:      ep.Dispatch,
			Layouts: byExpert,
			Doc:     "Counts are sent first. Then each token is sent directly to its output row, and the receiver copies it to the rows of further experts. For large batches.",
			Params: []kernels.Param{
				// Unlike algo of a combine, algo of a dispatch changes no bit of the output.
				designParam("algo", "dedup: one message for each distinct rank of a token; direct: one for each expert; home: as dedup, and the sender stores all rows that a token has on its own rank", "dedup", "dedup", "direct", "home"),
				smsParam("8", "12", "16", "24", "32", "48", "64", "96", "132"),
				waitParam("completes what arrived: copies rows to further experts, places scales", "0", "2", "5", "6", "8", "10", "12", "14", "16", "24", "32", "48", "66", "68", "84", "100"),
				threadsParam("512", "768", "1024"),
				teamParam(),
				scalesParam(),
			},
			Formerly: formerly("dispatch_final_home", "algo=home"),
			Check:    checkDispatchFinal,
			Default:  defaultDispatchFinal,
			Starts:   startsDispatchFinal,
		},
		source: "final/dispatch.cuh",
		State:  finalState,
		defines: func(c ep.Config) []string {
			scales := Define("EP_SCALES", Bit(c.Str("scales") == "tile"))
			if isHome(c) {
				return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_TEAM", c, "team"), scales}
			}
			return append(definesFast(c), scales)
		},
		compare: inOrder,
		places:  func(ep.Config) bool { return true },
		Launches: func(_ ep.Problem, c ep.Config) []Launch {
			if isHome(c) {
				return launchesFinal("dispatch_final_home", c, 0)
			}
			return launchesFinal("dispatch_final", c, 0)
		},
	}
}

// combineFinal declares the combine for prefill.
func combineFinal() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "combine_final",
			Op:      ep.Combine,
			Layouts: byExpert,
			Doc:     "Warps take messages in turn and send each with one release; other blocks sum. With algo=dedup a rank sums its rows before it sends them. For large batches.",
			Params: []kernels.Param{
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				ownParam(),
				smsParam("8", "12", "16", "20", "24", "32", "48", "64", "132"),
				waitParam("sums what arrived", "0", "3", "4", "5", "8", "9", "10", "12", "16", "24", "32", "48", "64"),
				threadsParam("384", "512", "768", "1024"),
				speedParam(kernels.Compile, "in_flight", "16-byte loads of a sending lane that wait in shared memory; 0: they wait in registers, 2 to 4 of them",
					"", "0", "0", "4", "8", "12"),
			},
			Formerly: formerlyPartial(formerly("combine_final_partial", "own=registers,in_flight=8")),
			Check:    checkCombineFinal,
			Default:  defaultCombineFinal,
			Starts:   startsCombineFinal,
		},
		source: "final/combine.cuh",
		State:  finalState,
		defines: func(c ep.Config) []string {
			flight := defineInt("EP_IN_FLIGHT", c, "in_flight")
			if ownRegisters(c) {
				return append(definesOwn(c), flight)
			}
			return append(definesFast(c), flight)
		},
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesFinal("combine_final", c, ringBytes(c)) },
		compare:  preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchFinal(m, p) },
	}
}

func waitParam(does string, sweep ...ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "wait_sms", "how many of the blocks (sms) send nothing: each of them "+does+". 0: every block first sends, and then does that too",
		"SMs", sweep[0], sweep...)
}

// definesFast returns the options of combine_final and of combine_ll.
func definesFast(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), Define("EP_DIRECT", Bit(c.Str("algo") == "direct"))}
}

func launchesFinal(entry string, c ep.Config, shared int) []Launch {
	l := launchOf(entry, c)
	l.Shared, l.Params.WaitSMs = shared, c.Int("wait_sms")
	return []Launch{l}
}

func checkFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFinalBlocks(m, p, c), kernels.CheckWord(c, "algo", "direct", "dedup"))
}

// checkFinalBlocks checks the conditions that all kernels of native/kernels/final have in common.
func checkFinalBlocks(m ep.Machine, p ep.Problem, c ep.Config) error {
	if p.Dispatch == ep.FP8 && p.Hidden > finalFP8Hidden {
		return fmt.Errorf("hidden: %d is more than %d, the most for which one warp holds the scales; use the ll or ep kernels", p.Hidden, finalFP8Hidden)
	}
	return cmp.Or(checkFast(m, p, c),
		kernels.CheckRange(c, "wait_sms", 0, c.Int("sms")-1)) // at least one block sends
}

func checkDispatchFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	most := 1
	if isHome(c) {
		most = c.Int("threads")/Warp - 1 // at least one warp completes what a team sends
	}
	return cmp.Or(checkFinalBlocks(m, p, c), kernels.CheckWord(c, "algo", "direct", "dedup", "home"), checkScales(p, c), kernels.CheckRange(c, "team", 1, most))
}

// ringShared is the largest shared memory, in bytes, of a block's ring. It fits every supported
// chip: sm_80 gives a block the least, 163 KiB.
const ringShared = 160 << 10

// ringBytes returns the shared memory of combine_final: in_flight vectors for each lane.
func ringBytes(c ep.Config) int { return c.Int("threads") * 16 * c.Int("in_flight") }

func checkCombineFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := cmp.Or(checkFinal(m, p, c), kernels.CheckMultiple(c, "in_flight", 4, 0, 32, "the vectors that one step loads")); err != nil {
		return err
	}
	if err := checkOwnRanks(p, c); err != nil {
		return err
	}
	if ownRegisters(c) && c.Int("in_flight") == 0 {
		return fmt.Errorf("in_flight: 0, but with own=registers loads wait in shared memory; use %d", partialInFlight)
	}
	if n := ringBytes(c); n > ringShared {
		return fmt.Errorf("in_flight: %s loads for each of %s threads take %d bytes of shared memory, more than %d; use %d",
			c.Str("in_flight"), c.Str("threads"), n, ringShared, ringShared/16/c.Int("threads")/4*4)
	}
	return nil
}

// defaultDispatchFinal returns a config in which five of every eight SMs complete the tokens that
// arrive, and the others send. On 4 H200 this was within 4 % of the best split from 1,024 tokens
// on.
func defaultDispatchFinal(m ep.Machine, p ep.Problem) ep.Config {
	sms := fastSMs(m, p)
	return ep.Config{Kernel: "dispatch_final", Values: map[string]ep.Value{
		"algo": "dedup", "sms": number(sms), "wait_sms": number(sms * 5 / 8), "threads": "768", "team": "1", "scales": "row",
	}}
}

// fewSMs is the number of SMs below which the loads and stores of the SMs limit a call, and not the
// link.
const fewSMs = 32

// startsDispatchFinal returns configs with other splits of the SMs. More completing blocks are
// better if one rank receives most rows. Fewer are better if there are few SMs. With FP8, each
// split is also returned with scales=tile. That halves the time if one rank receives most rows,
// saves a third on few SMs, and costs 2 to 5 % if rows are spread evenly.
func startsDispatchFinal(m ep.Machine, p ep.Problem) []ep.Config {
	own, sms := defaultDispatchFinal(m, p), fastSMs(m, p)
	splits := []ep.Config{own, own.With("wait_sms", number(sms*3/4))}
	if sms < fewSMs {
		splits = []ep.Config{own, own.With("wait_sms", number(sms/2)), own.With("wait_sms", "0")}
	}
	out := splits[1:]
	if p.Dispatch == ep.FP8 {
		for _, c := range splits {
			out = append(out, c.With("scales", "tile"))
		}
	}
	return append(append(out, defaultDispatchFinalHome(m, p)), startsDispatchFinalHome(m, p)...)
}

// defaultCombineFinal returns a config with half of the SMs: if every rank sends the same amount,
// half of the SMs already fill the link. It sums in top-k order, which gives the bits of the
// specification.
func defaultCombineFinal(m ep.Machine, p ep.Problem) ep.Config {
	all := fastSMs(m, p)
	sms := max(all/2, min(all, fewSMs))
	return ep.Config{Kernel: "combine_final", Values: map[string]ep.Value{
		"algo": "direct", "own": "slot", "sms": number(sms), "wait_sms": number(sms / 2), "threads": "768", "in_flight": "0",
	}}
}

// startsCombineFinal returns a config with all SMs, for ranks that read and sum more than they
// send. If there are few SMs, it also returns two configs with more loads in flight: one with blocks
// that only sum, and one without such blocks.
func startsCombineFinal(m ep.Machine, p ep.Problem) []ep.Config {
	sms := fastSMs(m, p)
	all := defaultCombineFinal(m, p).With("sms", number(sms)).With("wait_sms", number(sms*3/8))
	out := []ep.Config{all}
	if sms < fewSMs {
		deep := all.With("threads", "1024").With("in_flight", "8")
		out = append(out, deep, deep.With("wait_sms", "0"))
	}
	if p.Ranks < 2 {
		return out
	}
	return append(append(out, defaultCombineFinalPartial(m, p)), startsCombineFinalPartial(m, p)...)
}

// regionsFinal lists the regions in the order of the enum FinRegion in final/layout.cuh.
func regionsFinal(p ep.Problem) []Region {
	r, t, k, e := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.Experts)
	l := dtype.Of(p.Dispatch, p.Hidden)
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
