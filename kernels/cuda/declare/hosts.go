package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// hostsState declares the memory of the kernels that also send tokens to other hosts. Their device code is in
// native/kernels/hosts. A dispatch sends each token to the ranks (GPUs) that hold its experts, and a combine brings the
// experts' outputs back. Inside a host, a rank writes directly into the memory of another rank. Between hosts, it calls
// NVSHMEM.
var hostsState = State{Name: "hosts", Regions: regionsHosts, Counters: countersHosts}

// hostsLLState declares the memory of configs with arrival=data. In these configs receivers poll the data itself. In the
// other configs they wait for counters.
var hostsLLState = State{Name: "hosts-ll", Regions: regionsHostsLL, Counters: onlyAbort}

// Limits of the kernels that also send to other hosts.
const (
	// maxHostRanks is the largest number of ranks for which one block can wait.
	maxHostRanks = 64
	// maxHostThreads is the largest number of threads of a block. With more, a thread would have less than 128 registers,
	// and NVSHMEM's functions may need so many.
	maxHostThreads = 512
	// maxHeaderTopK is the largest top-k with arrival=data. One warp reads the header of a message: one lane reads the
	// number of the token, and each other lane can read one of its experts.
	maxHeaderTopK = Warp - 1
)

// dispatchUnpolled and combineUnpolled list the parameters that have no effect with arrival=data. In such configs the
// parameters must have the values in these lists.
const (
	dispatchUnpolled = "count_sms=2,tile_tokens=128,chunk_bytes=0,relay_warps=4,relay_chunk=1,in_flight=4"
	combineUnpolled  = "wait_sms=1,chunk_bytes=512,rotate=1,route=direct,partial=f32,in_flight=4"
)

// dispatchHosts declares the dispatch. It works like the dispatch of ep_comm in Modular's engine MAX with use_shmem.
func dispatchHosts() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_hosts", Op: ep.Dispatch,
			Doc: "Tokens are staged and put to every destination, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: append(hostParams("count: receivers wait until all messages are counted; data: they poll the messages, and between hosts a word that is put after each: one for each rank of a token, for small batches"),
				added(pieceParam("part", "with arrival=data, message bytes one receiving or forwarding warp waits for and copies")),
				speedParam(kernels.Launch, "count_sms", "blocks that count tokens and announce; the others send", "SMs", "2", "2", "8"),
				tileParam,
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a message that one warp puts; 0: all of it", "bytes", "0", "0", "1024", "4096"),
				wordParam("route", "direct: a message to each expert, or with arrival=data to each rank; rail: one to another host, to the rank with the sender's place, which forwards it there", "direct", "rail"),
				speedParam(kernels.Compile, "relay_warps", "warps of a block that forward under route=rail", "", "4", "1", "4", "16"),
				speedParam(kernels.Compile, "relay_chunk", "messages that a warp forwards in a row", "tokens", "1", "1", "4"),
				inFlightParam("4"),
			),
			Formerly: formerly("dispatch_ll_hosts", dispatchUnpolled+",arrival=data"),
			Check:    checkHosts, Starts: startsHosts(dispatchHosts),
		},
		ties: []tie{
			{"arrival=data", dispatchUnpolled}, {"arrival=count", "part=512"},
			{"route=rail", "chunk_bytes=0"}, // route=rail sends every message in one piece
		},
		source: sources.HostsFolder + "dispatch.cuh", entry: entryHosts("dispatch"), State: hostsState,
		stateOf: stateOfHosts,
		defines: func(c ep.Config) []string {
			if pollsData(c) {
				return []string{defineThreads(c), defineInt("EP_PART_BYTES", c, "part"), defineRoute(c), defineArrival}
			}
			return []string{defineThreads(c), defineInt("EP_IN_FLIGHT", c, "in_flight"), defineRoute(c),
				defineInt("EP_RELAY_WARPS", c, "relay_warps"), defineInt("EP_RELAY_CHUNK", c, "relay_chunk")}
		},
	}
}

// combineHosts declares the combine. With route=rail, a host sends one sum for each token. partial=bf16 rounds this sum to
// BF16.
func combineHosts() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_hosts", Op: ep.Combine,
			Doc: "Rows are put back to their token's rank and summed there, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: append(hostParams("count: receivers wait until all rows are counted; data: they poll the rows, and between hosts a word that is put after each, for small batches"),
				waitersParam, sumChunkParam, rotateParam("1"),
				wordParam("route", "direct: every row goes to its token's rank; rail: a host sends one sum a token, made by its rank with the place of the token's", "direct", "rail"),
				rounding(wordParam("partial", "dtype in which a host sends its sum of a token's rows with route=rail: f32 or bf16", "f32", "bf16")),
				inFlightParam("4"),
			),
			Formerly: formerly("combine_ll_hosts", combineUnpolled+",arrival=data"),
			Check:    checkHosts, Starts: startsHosts(combineHosts),
		},
		ties:   []tie{{"arrival=data", combineUnpolled}, {"route=direct", "partial=f32"}},
		source: sources.HostsFolder + "combine.cuh", entry: entryHosts("combine"), State: hostsState,
		stateOf: stateOfHosts,
		defines: func(c ep.Config) []string {
			if pollsData(c) {
				return []string{defineThreads(c), defineArrival}
			}
			return []string{defineThreads(c), defineInt("EP_IN_FLIGHT", c, "in_flight"), defineRoute(c), Define("EP_PARTIAL", Bit(c.Str("partial") == "bf16"))}
		},
		dispatch: func(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
			return Fitted(dispatchHosts().Kernel, m, p).With("arrival", c.Values["arrival"])
		},
	}
}

// hostParams returns the parameters that both kernels have. `arrival` is the description of the parameter arrival.
func hostParams(arrival string) []kernels.Param {
	return []kernels.Param{
		threadsParam("128", "256", "512"), smsParam("32", "64", "132"), modeParam(kernels.Launch),
		pdlParam("1"),
		design(added(wordParam("arrival", arrival, "count", "data"))),
	}
}

// pollsData reports whether receivers poll the data.
func pollsData(c ep.Config) bool { return c.Str("arrival") == "data" }

const defineArrival = "EP_ARRIVAL_DATA=1"

// isRail reports whether a token is sent only once to each host, and forwarded there.
func isRail(c ep.Config) bool { return c.Str("route") == "rail" }

func defineRoute(c ep.Config) string { return Define("EP_ROUTE", Bit(isRail(c))) }

// entryHosts returns the function Declaration.entry of an operation.
func entryHosts(op string) func(ep.Problem, ep.Config) string {
	return func(_ ep.Problem, c ep.Config) string {
		if pollsData(c) {
			return "ll_hosts_" + op
		}
		return "ep_hosts_" + op
	}
}

// stateOfHosts returns the memory that a config uses.
func stateOfHosts(c ep.Config) State {
	if pollsData(c) {
		return hostsLLState
	}
	return hostsState
}

// startsHosts returns the function Kernel.Starts. The function returns the default config with arrival=data.
func startsHosts(of func() Declaration) func(ep.Machine, ep.Problem) []ep.Config {
	return func(m ep.Machine, p ep.Problem) []ep.Config {
		return []ep.Config{Fitted(of().Kernel, m, p).With("arrival", "data")}
	}
}

// Fitted returns the default config of a kernel, limited to the SMs that the machine has.
func Fitted(k kernels.Kernel, m ep.Machine, p ep.Problem) ep.Config {
	return k.DefaultWithin(m, p, m.SMs)
}

// checkHosts checks whether a config can run. Each rank may use all SMs of its GPU.
func checkHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case p.Ranks > maxHostRanks:
		return fmt.Errorf("ranks: %d is more than the %d that the hosts kernels wait for", p.Ranks, maxHostRanks)
	case p.SkipA2A:
		return fmt.Errorf("skip-a2a: with it nothing is sent between hosts; use --backend cuda")
	case isRail(c) && p.Nodes == 1:
		return fmt.Errorf("route: rail needs several hosts, and this problem has one; use direct")
	}
	arrival := checkCounted
	if pollsData(c) {
		arrival = func(c ep.Config) error { return checkPolled(p, c) }
	}
	return cmp.Or(
		checkShape(p),
		checkNVFP4(p),
		kernels.CheckMultiple(c, "threads", Warp, Warp, maxHostThreads, "a warp"),
		kernels.CheckRange(c, "sms", 2, min(maxBlocksEP, max(m.SMs, 2))),
		arrival(c))
}

// checkPolled returns an error if a problem cannot run with arrival=data.
func checkPolled(p ep.Problem, c ep.Config) error {
	switch {
	case p.Dispatch != ep.BF16 && p.Dispatch != ep.FP8:
		return fmt.Errorf("dtype: %s with arrival=data sends bf16 and fp8, not %s; use arrival=count", c.Kernel, p.Dispatch)
	case p.SharedExpert:
		return fmt.Errorf("shared-expert: %s with arrival=data does not fuse it; use arrival=count", c.Kernel)
	case p.TopK > maxHeaderTopK:
		return fmt.Errorf("topk: %d is more than %d, the most that a header of %s holds with arrival=data; use arrival=count", p.TopK, maxHeaderTopK, c.Kernel)
	case p.MaxTokens > maxFastTokens:
		return fmt.Errorf("max-tokens: %d is more than %d, the largest position that a header holds", p.MaxTokens, maxFastTokens)
	}
	return nil
}

// regionsHosts lists the regions in the order of the enum EpHostRegion in hosts/layout.cuh.
func regionsHosts(p ep.Problem) []Region {
	r, t, k, local := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.LocalExperts())
	nodes := int64(p.Nodes)
	message, _ := messagesEP(p)
	row := int64(2 * p.Hidden)
	return []Region{
		Zeroed("send", t*message),
		Zeroed("recv", local*int64(dtype.Sources(p))*t*message),
		Zeroed("counts", local*r*8),
		Zeroed("arrived", r*8),
		Zeroed("seen", r*8),
		Zeroed("return", t*k*row),
		Zeroed("returned", r*8),
		Zeroed("return_counts", r*8),
		Zeroed("return_seen", r*8),
		Zeroed("relay", nodes*t*message),
		Zeroed("relay_flags", nodes*t*8),
		Zeroed("relay_counts", nodes*8),
		Zeroed("gather", nodes*t*k*row),
		Zeroed("sums", nodes*t*2*row),
		Zeroed("recipe", nodes*((8*t*k+15)/16*16)),
		Zeroed("rail_words", 8*nodes*(1+t+t*k)),
	}
}

// countersHosts returns the number of counters. The enum EpHostCounter in hosts/layout.cuh describes them.
func countersHosts(p ep.Problem) int { return countersEP(p) + 4*p.Experts + 2*p.Nodes }

// regionsHostsLL lists the regions in the order of the enum LhRegion in hosts/ll_layout.cuh.
func regionsHostsLL(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	counts := int64(p.LocalExperts()+3) / 2 * 2 // one for each expert of the rank, one for messages, one for forwarded messages; rounded up to a multiple of 16 bytes
	header := 8 * (k + 1)
	slot := int64(encodingOf(p).TokenBytes())
	message := slot + (header+15)/16*16 + (4*k+15)/16*16
	return []Region{
		Zeroed("counts", 3*r*counts*8),
		Zeroed("count_flags", 3*r*8),
		Zeroed("count_send", 3*r*counts*8),
		Poisoned("headers", 3*r*t*header),
		Poisoned("slots", 2*r*t*message),
		Zeroed("flags", 2*r*t*8),
		Zeroed("send", 2*t*message),
		Zeroed("route", r*t*header),
		Zeroed("messages", r*4),
		Zeroed("started", 2*r*8),
		Poisoned("return", 2*t*k*int64(2*p.Hidden)),
		Zeroed("return_flags", 2*t*k*8),
		Poisoned("forwarded", 2*r*t*slot),
	}
}
