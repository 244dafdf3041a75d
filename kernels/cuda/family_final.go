package cuda

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/tune/ep"
)

// finalState is the memory of the final-placement kernels, native/kernels/final.
const finalState = "final"

// Bounds of final/layout.cuh.
const (
	finalFP8Hidden = 128 * 128 // one lane keeps four scales for the burst
)

// dispatchFinal is the prefill dispatch: counts first, then each token
// straight to its row of the output.
func dispatchFinal() family {
	return family{
		kernel: kernels.Kernel{
			Name: "dispatch_final",
			Op:   ep.Dispatch,
			Doc:  "Counts first, then each token straight to its output row; rows of further experts are copied by the receiver. For large batches.",
			Params: []kernels.Param{
				dispatchAlgoParam(),
				smsParam("8", "12", "16", "24", "32", "48", "64", "96", "132"),
				waitParam("completes what arrived: copies rows to further experts, places scales", "0", "2", "5", "6", "8", "10", "12", "14", "16", "24", "32", "48", "68", "84", "100"),
				threadsParam("512", "768", "1024"),
				{Name: "scales", Doc: "when FP8 scales go to the output: row (with their row) or tile (32 rows together, once all are here)",
					Values: values("row", "tile"), Default: "row", Binding: kernels.Compile, Class: kernels.Speed},
			},
			Check:   checkDispatchFinal,
			Default: defaultDispatchFinal,
			Starts:  startsDispatchFinal,
		},
		source: "final/dispatch.cuh",
		state:  finalState,
		defines: func(m ep.Machine, p ep.Problem, c ep.Config) []string {
			return append(definesFinal(m, p, c), define("EP_SCALES", bit(c.Str("scales") == "tile")))
		},
		regions:  regionsFinal,
		counters: countersFinal,
		compare:  inOrder,
		launches: launchFinal("dispatch_final"),
	}
}

// combineFinal is the prefill combine.
func combineFinal() family {
	return family{
		kernel: kernels.Kernel{
			Name: "combine_final",
			Op:   ep.Combine,
			Doc:  "Warps take messages by ticket and send them with one release each; other blocks sum. algo=dedup sums a rank's rows before they travel. For large batches.",
			Params: []kernels.Param{
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				smsParam("8", "12", "16", "20", "24", "32", "48", "64", "132"),
				waitParam("sums what arrived", "0", "3", "5", "8", "9", "10", "16", "24", "32", "48"),
				threadsParam("384", "512", "768", "1024"),
				{Name: "in_flight", Doc: "16-byte loads of a sending lane that wait in shared memory; 0: they wait in registers, 2 to 4 of them",
					Values: values("0", "4", "8", "12"), Default: "0", Binding: kernels.Compile, Class: kernels.Speed},
			},
			Check:   checkCombineFinal,
			Default: defaultCombineFinal,
			Starts:  startsCombineFinal,
		},
		source: "final/combine.cuh",
		state:  finalState,
		defines: func(m ep.Machine, p ep.Problem, c ep.Config) []string {
			return append(definesFinal(m, p, c), define("EP_IN_FLIGHT", c.Int("in_flight")))
		},
		regions:  regionsFinal,
		counters: countersFinal,
		launches: func(m ep.Machine, p ep.Problem, c ep.Config) []launch {
			of := launchFinal("combine_final")(m, p, c)
			of[0].shared = ringBytes(c)
			return of
		},
		compare: preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config {
			return defaultDispatchFinal(m, p)
		},
	}
}

// dispatchAlgoParam changes no output bit, unlike combine's.
func dispatchAlgoParam() kernels.Param {
	return kernels.Param{Name: "algo", Doc: "dedup: one message for each distinct rank of a token; direct: one for each expert",
		Values: values("dedup", "direct"), Default: "dedup", Binding: kernels.Compile, Class: kernels.Speed}
}

func waitParam(does string, sweep ...ep.Value) kernels.Param {
	return kernels.Param{Name: "wait_sms", Doc: "of sms, blocks that send nothing: each " + does + "; 0: every block first sends, then does that",
		Unit: "SMs", Values: sweep, Default: sweep[0], Binding: kernels.Launch, Class: kernels.Speed}
}

func checkFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkFast(m, p, c); err != nil {
		return err
	}
	sms, wait := c.Int("sms"), c.Int("wait_sms")
	switch {
	case wait < 0 || wait >= sms:
		return fmt.Errorf("wait_sms: %s of %d blocks leave none to send; use 0 to %d", c.Str("wait_sms"), sms, sms-1)
	case p.Dispatch == ep.FP8 && p.Hidden > finalFP8Hidden:
		return fmt.Errorf("hidden: %d is more than %d, whose scales one warp holds; use the ll or ep kernels", p.Hidden, finalFP8Hidden)
	}
	return checkWord(c, "algo", "direct", "dedup")
}

func checkDispatchFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkFinal(m, p, c); err != nil {
		return err
	}
	if c.Str("scales") != "row" && p.Dispatch != ep.FP8 {
		return fmt.Errorf("scales: %s of %s are none; use row", c.Str("scales"), p.Dispatch)
	}
	return checkWord(c, "scales", "row", "tile")
}

// ringShared is what a block's ring may take: less than the 163 KiB that
// sm_80, the chip with the least, gives to one.
const ringShared = 160 << 10

// ringBytes is the shared memory of combine_final: in_flight vectors a lane.
func ringBytes(c ep.Config) int { return c.Int("threads") * 16 * c.Int("in_flight") }

func checkCombineFinal(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkFinal(m, p, c); err != nil {
		return err
	}
	if err := checkRange(c, "in_flight", 0, 32); err != nil {
		return err
	}
	if c.Int("in_flight")%4 != 0 {
		return fmt.Errorf("in_flight: %s is not a multiple of 4, the vectors of a step", c.Str("in_flight"))
	}
	if n := ringBytes(c); n > ringShared {
		return fmt.Errorf("in_flight: %s of %s threads take %d bytes of shared memory, more than %d; use %d",
			c.Str("in_flight"), c.Str("threads"), n, ringShared, ringShared/16/c.Int("threads")/4*4)
	}
	return nil
}

func definesFinal(_ ep.Machine, _ ep.Problem, c ep.Config) []string {
	return []string{define("EP_THREADS", c.Int("threads")), define("EP_DIRECT", bit(c.Str("algo") == "direct"))}
}

func launchFinal(entry string) func(ep.Machine, ep.Problem, ep.Config) []launch {
	return func(_ ep.Machine, _ ep.Problem, c ep.Config) []launch {
		l := fastLaunch(entry, c)
		l.params.waitSMs = c.Int("wait_sms")
		return []launch{l}
	}
}

// defaultDispatchFinal has five of eight SMs complete what arrives: on 4 H200
// within 4 % of the best split from 1,024 tokens on.
func defaultDispatchFinal(m ep.Machine, p ep.Problem) ep.Config {
	sms := fastSMs(m, p)
	return ep.Config{Kernel: "dispatch_final", Values: map[string]ep.Value{
		"algo": "dedup", "sms": number(sms), "wait_sms": number(sms * 5 / 8), "threads": "768", "scales": "row",
	}}
}

// fewSMs is where an SM's own loads and stores are the limit and not the link.
const fewSMs = 32

// startsDispatchFinal are its other splits of the SMs: three of four complete
// where most rows meet on one rank, fewer of few SMs, each with FP8 scales by
// tiles too. Tiles take half the time where most rows meet, save few SMs a third,
// and cost 2 to 5 % where rows are spread.
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
	return out
}

// defaultCombineFinal takes half the GPU, since more SMs only crowd the link where
// every rank sends alike, and sums in top-k order: the bits of the specification.
func defaultCombineFinal(m ep.Machine, p ep.Problem) ep.Config {
	all := fastSMs(m, p)
	sms := max(all/2, min(all, fewSMs))
	return ep.Config{Kernel: "combine_final", Values: map[string]ep.Value{
		"algo": "direct", "sms": number(sms), "wait_sms": number(sms / 2), "threads": "768", "in_flight": "0",
	}}
}

// startsCombineFinal are all SMs, for ranks that read and sum more than they send,
// and for few SMs what keeps more loads in flight, with summing SMs and without.
func startsCombineFinal(m ep.Machine, p ep.Problem) []ep.Config {
	sms := fastSMs(m, p)
	all := defaultCombineFinal(m, p).With("sms", number(sms)).With("wait_sms", number(sms*3/8))
	if sms >= fewSMs {
		return []ep.Config{all}
	}
	deep := all.With("threads", "1024").With("in_flight", "8")
	return []ep.Config{all, deep, deep.With("wait_sms", "0")}
}

// countersFinal is FinCounter of final/layout.cuh.
func countersFinal(ep.Problem) int { return 5 }

// regionsFinal is FinRegion of final/layout.cuh.
func regionsFinal(p ep.Problem) []region {
	r, t, k, e := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.Experts)
	l := formats.Of(p.Dispatch, p.Hidden)
	slots, rows := max(r, k), int64(0)
	if p.Dispatch == ep.FP8 {
		rows = int64(formats.MaxRows(p))
	}
	return []region{
		{"counts", 2 * r * (e + 1) * 8, 0},
		{"places", t * k * 4, 0},
		{"headers", r * t * k * 8, 0xff},
		{"scales", r * t * int64(l.TokenBytes()-l.ScaleOffset()), 0},
		{"route", r * t * k * 8, 0},
		{"tokens", r * 4, 0},
		{"started", r * 4, 0},
		{"flags", t * slots * 4, 0},
		{"return", t * slots * int64(2*p.Hidden), 0},
		{"origins", rows * 4, 0},
	}
}
