package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// hostsState declares the memory of the kernels in native/kernels/hosts, which also send tokens to other hosts. Inside
// a host, a rank writes directly into the memory of another rank. Between hosts, a rank calls NVSHMEM. The enums
// EpHostRegion and EpHostCounter in hosts/layout.cuh list the regions and the counters.
var hostsState = State{Name: "hosts", Counters: countersHosts, regions: func(z sizes) []Region {
	return []Region{
		Zeroed("send", z.tokens*z.direct),
		Zeroed("recv", z.local*z.sources*z.tokens*z.direct),
		Zeroed("counts", z.local*z.ranks*8),
		Zeroed("arrived", z.ranks*8),
		Zeroed("seen", z.ranks*8),
		Zeroed("return", z.tokens*z.topK*z.row),
		Zeroed("returned", z.ranks*8),
		Zeroed("return_counts", z.ranks*8),
		Zeroed("return_seen", z.ranks*8),
		Zeroed("relay", z.nodes*z.tokens*z.direct),
		Zeroed("relay_flags", z.nodes*z.tokens*8),
		Zeroed("relay_counts", z.nodes*8),
		Zeroed("gather", z.nodes*z.tokens*z.topK*z.row),
		Zeroed("sums", z.nodes*z.tokens*2*z.row),
		Zeroed("recipe", z.nodes*vectors(8*z.tokens*z.topK)),
		Zeroed("rail_words", 8*z.nodes*(1+z.tokens+z.tokens*z.topK)),
	}
}}

func countersHosts(p ep.Problem) int { return countersEP(p) + 4*p.Experts + 2*p.Nodes }

// hostsLLState declares the memory of configs with arrival=data. Receivers then poll the data instead of counters. The
// enum LhRegion in hosts/ll_layout.cuh lists the regions.
var hostsLLState = State{Name: "hosts-ll", ordered: true, regions: func(z sizes) []Region {
	counts := (z.local + 3) / 2 * 2 // one for each expert, two for messages and forwarded messages; rounded up to even
	header := 8 * (z.topK + 1)
	message := z.token + vectors(header) + vectors(4*z.topK)
	return []Region{
		Zeroed("counts", 3*z.ranks*counts*8),
		Zeroed("count_flags", 3*z.ranks*8),
		Zeroed("count_send", 3*z.ranks*counts*8),
		Poisoned("headers", 3*z.ranks*z.tokens*header),
		Poisoned("slots", 2*z.ranks*z.tokens*message),
		Zeroed("flags", 2*z.ranks*z.tokens*8),
		Zeroed("send", 2*z.tokens*message),
		Zeroed("route", z.ranks*z.tokens*header),
		Zeroed("messages", z.ranks*4),
		Zeroed("started", 2*z.ranks*8),
		Poisoned("return", 2*z.tokens*z.topK*z.row),
		Zeroed("return_flags", 2*z.tokens*z.topK*8),
		Poisoned("forwarded", 2*z.ranks*z.tokens*z.token),
	}
}}

// Limits of the kernels that also send to other hosts.
const (
	// maxHostRanks is the largest number of ranks for which one block can wait.
	maxHostRanks = 64
	// maxHostThreads is the largest number of threads of a block. With more threads, each has fewer than the 128
	// registers that NVSHMEM's functions may need.
	maxHostThreads = 512
	// maxHeaderTopK is the largest top-k with arrival=data. A warp reads a header at once: one lane reads the
	// token's number, and each of the other lanes reads one expert.
	maxHeaderTopK = Warp - 1
)

// dispatchUnpolled and combineUnpolled list the values of parameters that have no effect with arrival=data.
const (
	dispatchUnpolled = "count_sms=2,tile_tokens=128,chunk_bytes=0,relay_warps=4,relay_chunk=1,in_flight=4"
	combineUnpolled  = "wait_sms=1,chunk_bytes=512,rotate=1,route=direct,partial=f32,in_flight=4"
)

// hostsKernels declares a dispatch and a combine that cross hosts. They do what ep_comm in Modular's MAX does if its
// option use_shmem is set.
func hostsKernels() []Declaration {
	polled := map[string]State{"arrival=data": hostsLLState}
	out := []Declaration{{
		Kernel: kernels.Kernel{
			Name: "dispatch_hosts", Op: ep.Dispatch, Check: checkHosts,
			Doc: "Tokens are staged and put to every destination, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: params("threads 128 256 *512", "sms 32 64 *132", "mode/counts", "pdl 0 *1", "arrival/message", "part/hosts", "count_sms/hosts",
				"tile_tokens", "chunk_bytes/hosts", "route/message", "relay_warps", "relay_chunk", "in_flight 2 *4 8"),
			Formerly: formerly("dispatch_ll_hosts", dispatchUnpolled+",arrival=data"),
		},
		ties: []tie{
			{"arrival=data", dispatchUnpolled}, {"arrival=count", "part=512"},
			{"route=rail", "chunk_bytes=0"}, // route=rail sends every message in one piece
		},
		source: sources.HostsFolder + "dispatch.cuh", entry: "!arrival=data?ep_hosts_dispatch arrival=data?ll_hosts_dispatch",
		State: hostsState, states: polled,
		macros: "arrival=data?EP_PART_BYTES=part !arrival=data?EP_IN_FLIGHT=in_flight EP_ROUTE=route=rail " +
			"!arrival=data?EP_RELAY_WARPS=relay_warps !arrival=data?EP_RELAY_CHUNK=relay_chunk arrival=data?EP_ARRIVAL_DATA",
	}, {
		Kernel: kernels.Kernel{
			Name: "combine_hosts", Op: ep.Combine, Check: checkHosts,
			Doc: "Rows are put back to their token's rank and summed there, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: params("threads 128 256 *512", "sms 32 64 *132", "mode/counts", "pdl 0 *1", "arrival/row", "wait_sms/counts",
				"chunk_bytes/sum", "rotate 0 *1", "route/row", "partial", "in_flight 2 *4 8"),
			Formerly: formerly("combine_ll_hosts", combineUnpolled+",arrival=data"),
		},
		ties:   []tie{{"arrival=data", combineUnpolled}, {"route=direct", "partial=f32"}},
		source: sources.HostsFolder + "combine.cuh", entry: "!arrival=data?ep_hosts_combine arrival=data?ll_hosts_combine",
		State: hostsState, states: polled, follows: "arrival",
		macros: "!arrival=data?EP_IN_FLIGHT=in_flight !arrival=data?EP_ROUTE=route=rail " +
			"!arrival=data?EP_PARTIAL=partial=bf16 arrival=data?EP_ARRIVAL_DATA",
	}}
	for i, f := range out {
		out[i].Kernel.Starts = func(m ep.Machine, p ep.Problem) []ep.Config {
			return []ep.Config{Fitted(f.Kernel, m, p).With("arrival", "data")}
		}
	}
	return out
}

// Fitted returns the default config of a kernel, limited to the SMs of the machine.
func Fitted(k kernels.Kernel, m ep.Machine, p ep.Problem) ep.Config {
	return k.DefaultWithin(m, p, m.SMs)
}

// checkHosts checks a config. Each rank may use all SMs of its GPU.
func checkHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case p.Ranks > maxHostRanks:
		return fmt.Errorf("ranks: %d is more than %d, the most that kernels between hosts support", p.Ranks, maxHostRanks)
	case p.SkipA2A:
		return fmt.Errorf("skip-a2a: with it nothing is sent between hosts; use --backend cuda")
	case holds(c, "route=rail") && p.Nodes == 1:
		return fmt.Errorf("route: rail needs several hosts, and this problem has one; use direct")
	}
	if err := cmp.Or(checkShape(p), checkNVFP4(p), kernels.CheckMultiple(c, "threads", Warp, Warp, maxHostThreads, "a warp"),
		kernels.CheckRange(c, "sms", 2, min(maxBlocksEP, max(m.SMs, 2)))); err != nil {
		return err
	}
	if !holds(c, "arrival=data") {
		return checkCounted(c)
	}
	if err := checkPolled(p, c.Kernel+" with arrival=data", "arrival=count"); err != nil || p.TopK <= maxHeaderTopK {
		return err
	}
	return fmt.Errorf("topk: %d is more than %d, the most that a header of %s holds with arrival=data; use arrival=count", p.TopK, maxHeaderTopK, c.Kernel)
}

// vectors rounds bytes up to whole vectors of 16 bytes.
func vectors(bytes int64) int64 { return (bytes + 15) / 16 * 16 }
