package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// hostsState declares the memory of native/kernels/hosts, kernels that also send tokens to other hosts. Inside a host,
// a rank writes directly into the memory of another rank. Between hosts, it calls NVSHMEM.
var hostsState = State{Name: "hosts", Regions: regionsHosts, Counters: countersHosts}

// hostsLLState declares the memory of configs with arrival=data. Their receivers poll the data instead of counters.
var hostsLLState = State{Name: "hosts-ll", Regions: regionsHostsLL, Counters: onlyAbort}

// Limits of the kernels that also send to other hosts.
const (
	// maxHostRanks is the largest number of ranks for which one block can wait.
	maxHostRanks = 64
	// maxHostThreads is the largest number of threads of a block. With more, a thread has less than the 128 registers
	// that NVSHMEM's functions may need.
	maxHostThreads = 512
	// maxHeaderTopK is the largest top-k with arrival=data: a warp reads the token's number with one lane, and one
	// expert with each other lane.
	maxHeaderTopK = Warp - 1
)

// dispatchUnpolled and combineUnpolled list the values of parameters that have no effect with arrival=data.
const (
	dispatchUnpolled = "count_sms=2,tile_tokens=128,chunk_bytes=0,relay_warps=4,relay_chunk=1,in_flight=4"
	combineUnpolled  = "wait_sms=1,chunk_bytes=512,rotate=1,route=direct,partial=f32,in_flight=4"
)

// dispatchHosts declares the dispatch of ep_comm in Modular's MAX with use_shmem.
func dispatchHosts() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_hosts", Op: ep.Dispatch,
			Doc: "Tokens are staged and put to every destination, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: append(hostParams("count: receivers wait until all messages are counted; data, for small batches: receivers poll each message, or the flag that another host puts after it"),
				added(pieceParam("part", "with arrival=data, message bytes that a receiving or forwarding warp waits for and copies at a time")),
				speedParam(kernels.Launch, "count_sms", "blocks that count tokens and announce; the others send", "SMs", "2", "2", "8"),
				tileParam,
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a message that one warp puts; 0: all of it", "bytes", "0", "0", "1024", "4096"),
				wordParam("route", "direct: one message for each expert of a token, or with arrival=data for each rank; rail: one message for each host, sent to the host's rank with the sender's local index, and forwarded by that rank", "direct", "rail"),
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

// combineHosts declares the combine.
func combineHosts() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_hosts", Op: ep.Combine,
			Doc: "Rows are put back to their token's rank and summed there, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: append(hostParams("count: receivers wait until all rows are counted; data, for small batches: receivers poll each row, or the flag that another host puts after it"),
				waitersParam, sumChunkParam, rotateParam("1"),
				wordParam("route", "direct: every row goes to the rank of its token; rail: each host sends one sum for each token", "direct", "rail"),
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

func hostParams(arrival string) []kernels.Param {
	return []kernels.Param{
		threadsParam("128", "256", "512"), smsParam("32", "64", "132"), modeParam(kernels.Launch),
		pdlParam("1"),
		design(added(wordParam("arrival", arrival, "count", "data"))),
	}
}

func pollsData(c ep.Config) bool { return c.Str("arrival") == "data" }

const defineArrival = "EP_ARRIVAL_DATA=1"

func isRail(c ep.Config) bool { return c.Str("route") == "rail" }

func defineRoute(c ep.Config) string { return Define("EP_ROUTE", Bit(isRail(c))) }

func entryHosts(op string) func(ep.Problem, ep.Config) string {
	return func(_ ep.Problem, c ep.Config) string {
		if pollsData(c) {
			return "ll_hosts_" + op
		}
		return "ep_hosts_" + op
	}
}

func stateOfHosts(c ep.Config) State {
	if pollsData(c) {
		return hostsLLState
	}
	return hostsState
}

func startsHosts(of func() Declaration) func(ep.Machine, ep.Problem) []ep.Config {
	return func(m ep.Machine, p ep.Problem) []ep.Config {
		return []ep.Config{Fitted(of().Kernel, m, p).With("arrival", "data")}
	}
}

// Fitted returns the default config of a kernel, limited to the SMs of the machine.
func Fitted(k kernels.Kernel, m ep.Machine, p ep.Problem) ep.Config {
	return k.DefaultWithin(m, p, m.SMs)
}

// checkHosts checks a config. Each rank may use all SMs of its GPU.
func checkHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case p.Ranks > maxHostRanks:
		return fmt.Errorf("ranks: %d is more than the %d for which kernels between hosts can wait", p.Ranks, maxHostRanks)
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

// regionsHosts lists the regions of the enum EpHostRegion in hosts/layout.cuh.
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

// countersHosts returns the number of words of the enum EpHostCounter in hosts/layout.cuh.
func countersHosts(p ep.Problem) int { return countersEP(p) + 4*p.Experts + 2*p.Nodes }

// regionsHostsLL lists the regions of the enum LhRegion in hosts/ll_layout.cuh.
func regionsHostsLL(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	counts := int64(p.LocalExperts()+3) / 2 * 2 // of experts, messages and forwarded messages
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
