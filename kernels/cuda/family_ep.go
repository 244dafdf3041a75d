package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/tune/ep"
)

// epState is the memory of the ep kernels, native/kernels/ep.
const epState = "ep"

// dispatchEP is the library default: dispatch as MAX ep_comm does it, with
// its launch constants as defaults and as parameters.
func dispatchEP() family {
	return family{
		kernel: kernels.Kernel{
			Name: "dispatch",
			Op:   ep.Dispatch,
			Doc:  "Tokens are staged, copied to every destination and counted; counts travel last and release the receivers.",
			Params: append(epParams(),
				kernels.Param{Name: "count_sms", Doc: "blocks that count tokens and signal; the others send", Unit: "SMs",
					Values: values("2", "8", "16"), Default: "8", Binding: kernels.Launch, Class: kernels.Speed},
				kernels.Param{Name: "tile_tokens", Doc: "received tokens that a block claims at a time", Unit: "tokens",
					Values: values("16", "32", "128"), Default: "128", Binding: kernels.Launch, Class: kernels.Speed},
				kernels.Param{Name: "chunk_bytes", Doc: "bytes of a message that one warp sends; 0: all of it", Unit: "bytes",
					Values: values("0", "1024", "4096"), Default: "0", Binding: kernels.Launch, Class: kernels.Speed},
				kernels.Param{Name: "algo", Doc: "direct: one message for each expert; dedup: one for each distinct rank, expanded there",
					Values: values("direct", "dedup"), Default: "direct", Binding: kernels.Compile, Class: kernels.Speed},
				copyParam(), inFlightParam("4"),
			),
			Check:   checkDispatchEP,
			Default: defaultDispatchEP,
		},
		source:   "ep/dispatch.cuh",
		state:    epState,
		defines:  definesEP,
		regions:  regionsEP,
		counters: countersEP,
		launches: func(_ ep.Machine, p ep.Problem, c ep.Config) []launch {
			return epLaunches("ep_dispatch", p, c)
		},
	}
}

// combineEP is the library default: combine as MAX ep_comm does it.
func combineEP() family {
	return family{
		kernel: kernels.Kernel{
			Name: "combine",
			Op:   ep.Combine,
			Doc:  "Rows go back to a place of their own and are counted; a waiting block releases the blocks that sum them.",
			Params: append(epParams(),
				kernels.Param{Name: "wait_sms", Doc: "blocks that wait for all senders; the others sum", Unit: "SMs",
					Values: values("1", "2"), Default: "1", Binding: kernels.Launch, Class: kernels.Speed},
				kernels.Param{Name: "chunk_bytes", Doc: "bytes of a row that one warp sums at a time", Unit: "bytes",
					Values: values("512", "1024", "2048"), Default: "512", Binding: kernels.Launch, Class: kernels.Speed},
				kernels.Param{Name: "rows", Doc: "rows that a block sends at a time", Unit: "tokens",
					Values: values("1", "2", "4"), Default: "1", Binding: kernels.Compile, Class: kernels.Speed},
				kernels.Param{Name: "rotate", Doc: "1: each rank serves itself first, then the next; 0: all serve rank 0 first",
					Values: values("0", "1"), Default: "0", Binding: kernels.Launch, Class: kernels.Speed},
				algoParam("direct: every row travels; dedup: one BF16 partial sum for each rank, after dispatch with algo=dedup"),
				kernels.Param{Name: "epilogue", Doc: "what is done to each finished value: none, scale or bias",
					Values: values("none", "scale", "bias"), Default: "none", Binding: kernels.Compile, Class: kernels.Hook},
				copyParam(), inFlightParam("8"),
			),
			Check:   checkCombineEP,
			Default: defaultCombineEP,
			Pairs:   pairsEP,
		},
		source:   "ep/combine.cuh",
		state:    epState,
		defines:  definesEP,
		regions:  regionsEP,
		counters: countersEP,
		launches: func(_ ep.Machine, p ep.Problem, c ep.Config) []launch {
			return epLaunches("ep_combine", p, c)
		},
		compare: preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
			return defaultDispatchEP(m, p).With("algo", c.Values["algo"])
		},
	}
}

// epParams are what both halves declare. The default of pdl is MAX's for a
// fused kernel.
func epParams() []kernels.Param {
	pdl := pdlParam()
	pdl.Default = "1"
	return []kernels.Param{
		threadsParam("256", "512", "1024"),
		smsParam("32", "64", "132"),
		{Name: "mode", Doc: "fused: send and receive in one kernel; split: in two", Values: values("fused", "split"),
			Default: "fused", Binding: kernels.Launch, Class: kernels.Speed},
		pdl,
	}
}

func inFlightParam(def ep.Value) kernels.Param {
	return kernels.Param{Name: "in_flight", Doc: "16-byte loads that a lane has outstanding", Unit: "",
		Values: values("2", "4", "8"), Default: def, Binding: kernels.Compile, Class: kernels.Speed}
}

func copyParam() kernels.Param {
	return kernels.Param{Name: "copy", Doc: "how senders move data: vector (16 bytes a lane) or bulk (asynchronous copies through shared memory)",
		Values: values("vector", "bulk"), Default: "vector", Binding: kernels.Compile, Class: kernels.Speed}
}

// definesEP serves both families; a word that one does not declare is left
// out.
func definesEP(_ ep.Machine, _ ep.Problem, c ep.Config) []string {
	out := []string{
		define("EP_THREADS", c.Int("threads")),
		define("EP_ALGO", bit(c.Str("algo") == "dedup")),
		define("EP_IN_FLIGHT", c.Int("in_flight")),
		define("EP_COPY", bit(c.Str("copy") == "bulk")),
	}
	if c.Kernel == "combine" {
		out = append(out, define("EP_ROWS", c.Int("rows")), define("EP_EPILOGUE", epilogues[c.Str("epilogue")]))
	}
	return out
}

// epLaunches are entry for a fused call, entry_async and entry_wait for a
// split one, both on the same grid.
func epLaunches(entry string, p ep.Problem, c ep.Config) []launch {
	l := launch{entry: entry, grid: c.Int("sms"), block: c.Int("threads"), shared: sharedEP(p, c), pdl: c.Int("pdl") == 1}
	l.params = launchParams{
		sms: c.Int("sms"), waitSMs: c.Int("wait_sms"), countSMs: c.Int("count_sms"),
		tileTokens: c.Int("tile_tokens"), chunkBytes: c.Int("chunk_bytes"),
	}
	if c.Kernel == "combine" {
		l.params.own = combineParams{rotate: c.Int("rotate") == 1}
	}
	if c.Str("mode") == "fused" {
		return []launch{l}
	}
	async, wait := l, l
	async.entry, wait.entry = entry+"_async", entry+"_wait"
	return []launch{async, wait}
}

// sharedEP is the dynamic shared memory of bulk copies: three messages that
// are being sent, or eight rows.
func sharedEP(p ep.Problem, c ep.Config) int {
	direct, dedup := messagesEP(p)
	switch {
	case c.Str("copy") != "bulk":
		return 0
	case c.Kernel == "combine":
		return 8 * 2 * p.Hidden
	case c.Str("algo") == "dedup":
		return int(3 * dedup)
	}
	return int(3 * direct)
}

// monitorsEP is MAX's number of counting blocks: a warp for each expert.
func monitorsEP(p ep.Problem, threads int) int { return max(1, (p.Experts*warp+threads-1)/threads) }

func defaultDispatchEP(m ep.Machine, p ep.Problem) ep.Config {
	sms := max(2, maxBlocks(m, p))
	return ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{
		"threads": "1024", "sms": number(sms), "mode": "fused", "pdl": "1",
		"count_sms": number(min(monitorsEP(p, maxThreads), sms-1)), "tile_tokens": "128", "chunk_bytes": "0",
		"algo": "direct", "copy": "vector", "in_flight": "4",
	}}
}

// defaultCombineEP has all rows of a token in flight, as MAX does, up to what
// 64 registers a thread hold.
func defaultCombineEP(m ep.Machine, p ep.Problem) ep.Config {
	inFlight := ep.Value("8")
	if p.TopK > 8 {
		inFlight = "4"
	}
	return ep.Config{Kernel: "combine", Values: map[string]ep.Value{
		"threads": "1024", "sms": number(max(2, maxBlocks(m, p))), "mode": "fused", "pdl": "1",
		"wait_sms": "1", "chunk_bytes": "512", "rows": "1", "rotate": "0",
		"algo": "direct", "epilogue": "none", "copy": "vector", "in_flight": inFlight,
	}}
}

func number(n int) ep.Value { return ep.Value(fmt.Sprint(n)) }

func checkDispatchEP(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkEP(m, p, c); err != nil {
		return err
	}
	if err := checkRange(c, "count_sms", 1, c.Int("sms")-1); err != nil {
		return err
	}
	if err := checkRange(c, "tile_tokens", 1, ep.MaxTokens); err != nil {
		return err
	}
	return checkChunk(c, 0)
}

func checkCombineEP(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkEP(m, p, c); err != nil {
		return err
	}
	if err := checkRange(c, "wait_sms", 1, c.Int("sms")-1); err != nil {
		return err
	}
	if err := checkRange(c, "rows", 1, 8); err != nil {
		return err
	}
	if err := checkSwitch(c, "rotate"); err != nil {
		return err
	}
	if err := checkWord(c, "epilogue", "none", "scale", "bias"); err != nil {
		return err
	}
	return checkChunk(c, 16)
}

// checkEP is what both halves ask for.
func checkEP(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkProblem(m, p); err != nil {
		return err
	}
	if err := checkThreads(c, "threads", warp, maxThreads); err != nil {
		return err
	}
	if err := checkSMs(m, p, c, "sms", 2); err != nil {
		return err
	}
	if err := checkRange(c, "sms", 2, maxBlocksEP); err != nil {
		return err
	}
	if err := checkWord(c, "mode", "fused", "split"); err != nil {
		return err
	}
	if err := checkSwitch(c, "pdl"); err != nil {
		return err
	}
	if err := checkWord(c, "in_flight", "1", "2", "4", "8"); err != nil {
		return err
	}
	if p.SkipA2A && c.Str("algo") == "dedup" {
		return fmt.Errorf("algo: dedup has nothing to save under skip-a2a, where nothing is sent; use direct")
	}
	if err := checkWord(c, "algo", "direct", "dedup"); err != nil {
		return err
	}
	if p.Dispatch == ep.NVFP4 {
		if err := checkHiddenTile(p, 32, "one 16-byte vector of e2m1"); err != nil {
			return err
		}
	}
	return checkCopy(m, p, c)
}

// sharedLimit is what a block may have of an SM's shared memory from sm_90
// on, less a reserve for what kernels declare themselves.
const sharedLimit = 227<<10 - 20<<10

func checkCopy(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkWord(c, "copy", "vector", "bulk"); err != nil || c.Str("copy") == "vector" {
		return err
	}
	if before90(m.Arch) {
		return fmt.Errorf("copy: bulk needs sm_90 or later and this is %s; use vector", m.Arch)
	}
	if c.Kernel == "combine" && c.Str("algo") == "dedup" {
		return fmt.Errorf("copy: bulk moves rows as they are and dedup sums them; use vector")
	}
	if n := sharedEP(p, c); n > sharedLimit {
		return fmt.Errorf("copy: bulk stages %d bytes in shared memory, more than %d; use vector", n, sharedLimit)
	}
	return nil
}

// before90 reads an architecture such as sm_80 or sm_90a.
func before90(arch string) bool {
	n, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af"))
	return err == nil && n < 90
}

// checkChunk wants whole 16-byte vectors; 0 where least is 0.
func checkChunk(c ep.Config, least int) error {
	if n := c.Int("chunk_bytes"); n%16 != 0 {
		return fmt.Errorf("chunk_bytes: %d is not a multiple of 16, one vector", n)
	}
	return checkRange(c, "chunk_bytes", least, 1<<20)
}

// pairsEP: partial sums need the rows of a token side by side, which only a
// dedup dispatch notes.
func pairsEP(dispatch, combine ep.Config) error {
	if combine.Str("algo") == "dedup" && dispatch.Str("algo") != "dedup" {
		return fmt.Errorf("combine.algo: dedup sums by message and needs dispatch.algo=dedup, not %s", dispatch.Str("algo"))
	}
	return nil
}

// maxBlocksEP is the number of go words of EpCounter.
const maxBlocksEP = 512

// regionsEP is EpRegion of ep/layout.cuh.
func regionsEP(p ep.Problem) []region {
	r, t, k, local := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.LocalExperts())
	sources := r
	if p.SkipA2A {
		sources = 1
	}
	direct, dedup := messagesEP(p)
	row := int64(2 * p.Hidden)
	return []region{
		{"send", t * dedup, 0},
		{"recv", t * max(local*sources*direct, r*dedup), 0},
		{"counts", local * sources * 8, 0xff},
		{"rank_flags", 2 * r * 8, 0xff},
		{"rows", r * t * k * 4, 0xff},
		{"return", t * max(k, r) * row, 0},
		{"return_counts", local * sources * 8, 0xff},
		{"return_flags", r * 8, 0xff},
	}
}

// messagesEP is the size of a message of either algorithm: dedup carries the
// router weights too.
func messagesEP(p ep.Problem) (direct, dedup int64) {
	direct = int64(formats.Of(p.Dispatch, p.Hidden).Message(p.TopK).Bytes)
	return direct, direct + int64(4*p.TopK+formats.Align-1)/formats.Align*formats.Align
}

// countersEP is EpCounter of ep/layout.cuh.
func countersEP(p ep.Problem) int { return 40 + 7*p.Experts + maxBlocksEP }
