package cuda

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/tune/ep"
)

// llState is the memory of the low-latency kernels, native/kernels/ll.
const llState = "ll"

// dispatchLL is the decode dispatch: one message for each distinct rank of a
// token, receivers polling the data itself.
func dispatchLL() family {
	return family{
		kernel: kernels.Kernel{
			Name: "dispatch_ll",
			Op:   ep.Dispatch,
			Doc:  "One kernel, one message for each distinct rank of a token, no flags: receivers poll the data. For small batches.",
			Params: []kernels.Param{
				smsParam("16", "32", "64", "132"),
				threadsParam("512", "1024"),
				{Name: "send", Doc: "message bytes one sending warp converts and stores", Unit: "bytes",
					Values: values("512", "1024"), Default: "512", Binding: kernels.Compile, Class: kernels.Speed},
				{Name: "part", Doc: "message bytes one receiving warp waits for and copies", Unit: "bytes",
					Values: values("512", "1024"), Default: "512", Binding: kernels.Compile, Class: kernels.Speed},
				{Name: "receivers", Doc: "warps of each block that never send, so that early tokens are copied while others leave", Unit: "warps",
					Values: values("0", "8"), Default: "8", Binding: kernels.Launch, Class: kernels.Speed},
				{Name: "pause", Doc: "time between two looks at a part by such a warp", Unit: "ns",
					Values: values("0", "250"), Default: "0", Binding: kernels.Launch, Class: kernels.Speed},
				{Name: "early", Doc: "1: receivers look for data before the offsets are known", Unit: "",
					Values: values("0", "1"), Default: "0", Binding: kernels.Compile, Class: kernels.Speed},
				pdlParam(),
			},
			Check:   checkDispatchLL,
			Default: defaultDispatchLL,
			Beside:  besideLL,
		},
		source:   "ll/dispatch.cuh",
		state:    llState,
		defines:  definesDispatchLL,
		regions:  regionsLL,
		counters: oneCounter,
		compare:  inOrder,
		launches: func(_ ep.Machine, _ ep.Problem, c ep.Config) []launch {
			l := fastLaunch("dispatch_ll", c)
			l.params.own = dispatchLLParams{receivers: c.Int("receivers"), pauseNs: c.Int("pause")}
			return []launch{l}
		},
	}
}

// combineLL is the decode combine, which polls data as dispatchLL does.
func combineLL() family {
	return family{
		kernel: kernels.Kernel{
			Name: "combine_ll",
			Op:   ep.Combine,
			Doc:  "One kernel without flags: receivers poll the rows. algo=dedup sums a rank's rows before they travel. For small batches.",
			Params: []kernels.Param{
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				smsParam("16", "32", "64", "132"),
				threadsParam("512", "1024"),
				pdlParam(),
			},
			Check:   checkCombineLL,
			Default: defaultCombineLL,
			Starts:  startsCombineLL,
			Beside:  besideLL,
		},
		source: "ll/combine.cuh",
		state:  llState,
		defines: func(_ ep.Machine, _ ep.Problem, c ep.Config) []string {
			return []string{define("EP_THREADS", c.Int("threads")), define("EP_DIRECT", bit(c.Str("algo") == "direct"))}
		},
		regions:  regionsLL,
		counters: oneCounter,
		launches: func(_ ep.Machine, _ ep.Problem, c ep.Config) []launch {
			return []launch{fastLaunch("combine_ll", c)}
		},
		compare: preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config {
			return defaultDispatchLL(m, p)
		},
	}
}

func checkDispatchLL(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkFast(m, p, c); err != nil {
		return err
	}
	for _, name := range []string{"send", "part"} {
		if n := c.Int(name); n != 512 && n != 1024 && n != 2048 {
			return fmt.Errorf("%s: %s is not 512, 1024 or 2048 bytes, 1 to 4 vectors a lane", name, c.Str(name))
		}
	}
	if n, warps := c.Int("receivers"), c.Int("threads")/warp; n < 0 || n >= warps {
		return fmt.Errorf("receivers: %s of %d warps leave none to send; use 0 to %d", c.Str("receivers"), warps, warps-1)
	}
	if err := checkRange(c, "pause", 0, 100_000); err != nil {
		return err
	}
	if c.Int("pause") > 0 && c.Int("receivers") == 0 {
		return fmt.Errorf("pause: %s spares the senders of the same block, and receivers=0 has none left to spare; use 0", c.Str("pause"))
	}
	if c.Int("early") == 1 && c.Int("receivers") > 0 {
		return fmt.Errorf("receivers: %s with early=1, where all warps wait for the offsets together; use 0", c.Str("receivers"))
	}
	if err := checkSwitch(c, "early"); err != nil {
		return err
	}
	return checkSwitch(c, "pdl")
}

func checkCombineLL(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkFast(m, p, c); err != nil {
		return err
	}
	if err := checkSwitch(c, "pdl"); err != nil {
		return err
	}
	return checkWord(c, "algo", "direct", "dedup")
}

// besideLL launches a half of a pair while the other runs: on 4 H200 that took 9 to
// 15 % off pairs of 1 and 8 tokens, where neither half alone gains by it.
func besideLL(c ep.Config) ep.Config { return c.With("pdl", "1") }

func definesDispatchLL(_ ep.Machine, _ ep.Problem, c ep.Config) []string {
	return []string{
		define("EP_THREADS", c.Int("threads")),
		define("EP_SEND_BYTES", c.Int("send")),
		define("EP_PART_BYTES", c.Int("part")),
		define("EP_EARLY", c.Int("early")),
	}
}

// defaultDispatchLL follows what won on 8 H200: whole GPU; below 9 tokens
// small parts and early receivers, above 32 more warps and larger parts.
func defaultDispatchLL(m ep.Machine, p ep.Problem) ep.Config {
	v := map[string]ep.Value{
		"sms": number(fastSMs(m, p)), "threads": "512", "send": "512", "part": "512",
		"receivers": "8", "pause": "0", "early": "0", "pdl": "0",
	}
	if p.Tokens <= 8 {
		v["early"], v["receivers"] = "1", "0"
	} else {
		v["part"] = "1024"
	}
	if p.Tokens > 32 {
		v["threads"] = "1024"
	}
	return ep.Config{Kernel: "dispatch_ll", Values: v}
}

// defaultCombineLL sums in top-k order: the bits of the specification.
func defaultCombineLL(m ep.Machine, p ep.Problem) ep.Config {
	return ep.Config{Kernel: "combine_ll", Values: map[string]ep.Value{
		"algo": "direct", "sms": number(fastSMs(m, p)), "threads": "512", "pdl": "0",
	}}
}

// startsCombineLL is 1,024 threads above 64 tokens: on 2 and 4 H200 they took 2 to
// 25 % less there, and 4 to 14 % more below. Not the default, since on sm_100a
// they spill.
func startsCombineLL(m ep.Machine, p ep.Problem) []ep.Config {
	if p.Tokens <= 64 {
		return nil
	}
	return []ep.Config{defaultCombineLL(m, p).With("threads", "1024")}
}

// regionsLL is LlRegion of ll/layout.cuh.
func regionsLL(p ep.Problem) []region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	l := formats.Of(p.Dispatch, p.Hidden)
	return []region{
		{"counts", 3 * r * int64(p.LocalExperts()+1) * 8, 0},
		{"headers", 3 * r * t * k * 8, 0xff},
		{"slots", 2 * r * t * int64(l.TokenBytes()), 0xff},
		{"route", r * t * k * 8, 0},
		{"tokens", r * 4, 0},
		{"started", r * 4, 0},
		{"return", 2 * t * max(r, k) * int64(2*p.Hidden), 0xff},
	}
}
