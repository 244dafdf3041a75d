package cuda

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/tune/plan"
)

// finalState is the memory of the final-placement kernels, native/kernels/final.
const finalState = "final"

// Bounds of final/layout.cuh.
const (
	finalBlocks    = 256       // rows of FIN_BLOCKS
	finalFP8Hidden = 128 * 128 // one lane keeps four scales for the burst
)

// dispatchFinal is the prefill dispatch: counts first, then each token
// straight to its row of the output.
func dispatchFinal() family {
	return family{
		kernel: kernels.Kernel{
			Name: "dispatch_final",
			Op:   plan.Dispatch,
			Doc:  "Counts first, then each token straight to its output row; rows of further experts are copied by the receiver. For large batches.",
			Params: []kernels.Param{
				dispatchAlgoParam(),
				smsParam("8", "12", "16", "24", "32", "48", "64", "96", "132"),
				waitParam("completes what arrived: copies rows to further experts, places scales", "0", "2", "5", "6", "8", "12", "16", "24", "32", "48", "68", "84", "100"),
				threadsParam("512", "768", "1024"),
				{Name: "counts", Doc: "where a block learns of rows before its own: handed (from block to block) or whole (it counts all ids itself)",
					Values: values("handed", "whole"), Default: "whole", Binding: kernels.Compile, Class: kernels.Speed},
				{Name: "scales", Doc: "when FP8 scales go to the output: row (with their row) or quad (four rows at once)",
					Values: values("row", "quad"), Default: "row", Binding: kernels.Compile, Class: kernels.Speed},
				{Name: "copy", Doc: "how rows of further experts are copied: vector (16 bytes a lane) or bulk (asynchronous copies through shared memory)",
					Values: values("vector", "bulk"), Default: "vector", Binding: kernels.Compile, Class: kernels.Speed},
			},
			Check:   checkDispatchFinal,
			Default: defaultDispatchFinal,
		},
		source: "final/dispatch.cuh",
		state:  finalState,
		defines: func(m plan.Machine, p plan.Problem, c plan.Config) []string {
			return append(definesFinal(m, p, c), define("EP_WHOLE", bit(c.Str("counts") == "whole")),
				define("EP_SCALES", bit(c.Str("scales") == "quad")), define("EP_COPY", bit(c.Str("copy") == "bulk")))
		},
		regions:  regionsFinal,
		counters: countersFinal,
		compare:  inOrder,
		launches: func(m plan.Machine, p plan.Problem, c plan.Config) []launch {
			of := launchFinal("dispatch_final")(m, p, c)
			of[0].shared = stageBytes(p, c)
			return of
		},
	}
}

// combineFinal is the prefill combine.
func combineFinal() family {
	return family{
		kernel: kernels.Kernel{
			Name: "combine_final",
			Op:   plan.Combine,
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
		},
		source: "final/combine.cuh",
		state:  finalState,
		defines: func(m plan.Machine, p plan.Problem, c plan.Config) []string {
			return append(definesFinal(m, p, c), define("EP_IN_FLIGHT", c.Int("in_flight")))
		},
		regions:  regionsFinal,
		counters: countersFinal,
		launches: func(m plan.Machine, p plan.Problem, c plan.Config) []launch {
			of := launchFinal("combine_final")(m, p, c)
			of[0].shared = ringBytes(c)
			return of
		},
		compare: preReduced,
		dispatch: func(m plan.Machine, p plan.Problem, _ plan.Config) plan.Config {
			return defaultDispatchFinal(m, p)
		},
	}
}

// dispatchAlgoParam changes no output bit, unlike combine's.
func dispatchAlgoParam() kernels.Param {
	return kernels.Param{Name: "algo", Doc: "dedup: one message for each distinct rank of a token; direct: one for each expert",
		Values: values("dedup", "direct"), Default: "dedup", Binding: kernels.Compile, Class: kernels.Speed}
}

func waitParam(does string, sweep ...plan.Value) kernels.Param {
	return kernels.Param{Name: "wait_sms", Doc: "of sms, blocks that send nothing: each " + does + "; 0: every block first sends, then does that",
		Unit: "SMs", Values: sweep, Default: sweep[0], Binding: kernels.Launch, Class: kernels.Speed}
}

func checkFinal(m plan.Machine, p plan.Problem, c plan.Config) error {
	if err := checkFast(m, p, c); err != nil {
		return err
	}
	sms, wait := c.Int("sms"), c.Int("wait_sms")
	switch {
	case sms > finalBlocks:
		return fmt.Errorf("sms: %d is more than %d, the blocks whose counts %s keeps", sms, finalBlocks, c.Kernel)
	case wait < 0 || wait >= sms:
		return fmt.Errorf("wait_sms: %s of %d blocks leave none to send; use 0 to %d", c.Str("wait_sms"), sms, sms-1)
	case p.Dispatch == plan.FP8 && p.Hidden > finalFP8Hidden:
		return fmt.Errorf("hidden: %d is more than %d, whose scales one warp holds; use the ll or ep kernels", p.Hidden, finalFP8Hidden)
	}
	return checkWord(c, "algo", "direct", "dedup")
}

func checkDispatchFinal(m plan.Machine, p plan.Problem, c plan.Config) error {
	if err := checkFinal(m, p, c); err != nil {
		return err
	}
	if err := checkWord(c, "counts", "handed", "whole"); err != nil {
		return err
	}
	if c.Str("scales") != "row" && p.Dispatch != plan.FP8 {
		return fmt.Errorf("scales: %s of %s are none; use row", c.Str("scales"), p.Dispatch)
	}
	if err := checkWord(c, "scales", "row", "quad"); err != nil {
		return err
	}
	return checkDuplicates(m, p, c)
}

// stageBytes is the shared memory of bulk copies: a piece of a row, at most
// 8 KiB, for each warp; FIN_PIECE of final/duplicate.cuh.
func stageBytes(p plan.Problem, c plan.Config) int {
	if c.Str("copy") != "bulk" {
		return 0
	}
	payload := formats.Of(p.Dispatch, p.Hidden).ScaleOffset()
	pieces := (payload + 8191) / 8192
	return c.Int("threads") / warp * (((payload+pieces-1)/pieces + 15) / 16 * 16)
}

func checkDuplicates(m plan.Machine, p plan.Problem, c plan.Config) error {
	if err := checkWord(c, "copy", "vector", "bulk"); err != nil || c.Str("copy") == "vector" {
		return err
	}
	if before90(m.Arch) {
		return fmt.Errorf("copy: bulk needs sm_90 or later and this is %s; use vector", m.Arch)
	}
	if c.Str("algo") == "direct" {
		return fmt.Errorf("copy: bulk has no rows to copy where algo=direct sends each; use vector")
	}
	if n := stageBytes(p, c); n > sharedLimit {
		return fmt.Errorf("copy: bulk of %s threads stages %d bytes in shared memory, more than %d; use fewer threads or vector",
			c.Str("threads"), n, sharedLimit)
	}
	return nil
}

// ringShared is what a block's ring may take: less than the 163 KiB that
// sm_80, the chip with the least, gives to one.
const ringShared = 160 << 10

// ringBytes is the shared memory of combine_final: in_flight vectors a lane.
func ringBytes(c plan.Config) int { return c.Int("threads") * 16 * c.Int("in_flight") }

func checkCombineFinal(m plan.Machine, p plan.Problem, c plan.Config) error {
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

func definesFinal(_ plan.Machine, _ plan.Problem, c plan.Config) []string {
	return []string{define("EP_THREADS", c.Int("threads")), define("EP_DIRECT", bit(c.Str("algo") == "direct"))}
}

func launchFinal(entry string) func(plan.Machine, plan.Problem, plan.Config) []launch {
	return func(_ plan.Machine, _ plan.Problem, c plan.Config) []launch {
		l := fastLaunch(entry, c)
		l.params.waitSMs = c.Int("wait_sms")
		return []launch{l}
	}
}

// defaultDispatchFinal splits the whole GPU evenly, what won on 8 H200.
func defaultDispatchFinal(m plan.Machine, p plan.Problem) plan.Config {
	sms := min(fastSMs(m, p), finalBlocks)
	return plan.Config{Kernel: "dispatch_final", Values: map[string]plan.Value{
		"algo": "dedup", "sms": number(sms), "wait_sms": number(sms / 2), "threads": "768", "counts": "whole", "scales": "row", "copy": "vector",
	}}
}

// defaultCombineFinal takes half the GPU, since more SMs only crowd the link,
// and sums in top-k order: the bits of the specification.
func defaultCombineFinal(m plan.Machine, p plan.Problem) plan.Config {
	sms := max(min(fastSMs(m, p)/2, finalBlocks), 1)
	return plan.Config{Kernel: "combine_final", Values: map[string]plan.Value{
		"algo": "direct", "sms": number(sms), "wait_sms": number(sms / 2), "threads": "768", "in_flight": "0",
	}}
}

// countersFinal is FinCounter of final/layout.cuh.
func countersFinal(plan.Problem) int { return 4 + finalBlocks }

// regionsFinal is FinRegion of final/layout.cuh.
func regionsFinal(p plan.Problem) []region {
	r, t, k, e := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.Experts)
	l := formats.Of(p.Dispatch, p.Hidden)
	slots, rows := max(r, k), int64(0)
	if p.Dispatch == plan.FP8 {
		rows = int64(formats.MaxRows(p))
	}
	return []region{
		{"counts", 2 * r * (e + 1) * 8, 0},
		{"blocks", finalBlocks * e * 4, 0},
		{"places", t * k * 4, 0},
		{"headers", r * t * k * 8, 0xff},
		{"scales", r * t * int64(l.TokenBytes()-l.ScaleOffset()), 0},
		{"route", r * t * k * 8, 0},
		{"tokens", r * 4, 0},
		{"started", r * 4, 0},
		{"flags", t * slots * 4, 0},
		{"return", t * slots * int64(2*p.Hidden), 0},
		{"origins", rows * 4, 0},
		{"quads", rows, 0},
	}
}
