package declare

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// hostsState declares the memory of the kernels that cross hosts, native/kernels/hosts.
var hostsState = State{Name: "hosts", Regions: regionsHosts, Counters: countersHosts}

// Limits of the kernels that cross hosts.
const (
	maxHostRanks = 64 // one block waits for all ranks
	// maxHostThreads leaves 128 registers for each thread: NVSHMEM's functions may need them.
	maxHostThreads = 512
)

// HostDeclarations lists the kernels that cross hosts. They need one process for each GPU. A
// process that has all GPUs of a host cannot run them, so Declarations does not list them.
func HostDeclarations() []Declaration {
	return []Declaration{dispatchHosts(), combineHosts(), dispatchHostsLL(), combineHostsLL()}
}

func allDeclarations() []Declaration { return append(Declarations(), HostDeclarations()...) }

// declarationsOver lists the kernels for ranks on `nodes` nodes. The list is made once, because each
// description of a call looks up a kernel in it. Callers must not change it.
func declarationsOver(nodes int) []Declaration {
	if nodes > 1 {
		return overHosts()
	}
	return oneHost()
}

var oneHost, overHosts = sync.OnceValue(Declarations), sync.OnceValue(HostDeclarations)

// KernelsOver lists the kernels of a pack for ranks on `nodes` nodes.
func KernelsOver(nodes int, m ep.Machine) []kernels.Kernel {
	if nodes > 1 {
		return HostKernels(m)
	}
	return Kernels()
}

// ABIOver names the build of KernelsOver.
func ABIOver(nodes int) ep.ABI {
	if nodes > 1 {
		return HostABI()
	}
	return ABI()
}

// dispatchHosts declares dispatch over hosts, as MAX's ep_comm does it with use_shmem.
func dispatchHosts() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_hosts",
			Op:   ep.Dispatch,
			Doc:  "Tokens are staged and put to every destination, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: append(hostParams(),
				speedParam(kernels.Launch, "count_sms", "blocks that count tokens and announce; the others send", "SMs", "2", "2", "8"),
				speedParam(kernels.Launch, "tile_tokens", "received tokens that a block claims at a time", "tokens", "128", "16", "32", "128"),
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a message that one warp puts; 0: all of it", "bytes", "0", "0", "1024", "4096"),
				routeParam("direct: a message to each expert; rail: one to another host, to the rank with the sender's place, which forwards it there"),
				speedParam(kernels.Compile, "relay_warps", "warps of a block that forward under route=rail", "", "4", "1", "4", "16"),
				speedParam(kernels.Compile, "relay_chunk", "messages that a warp forwards in a row", "tokens", "1", "1", "4"),
				inFlightParam("4"),
			),
			Check: checkDispatchHosts,
		},
		source: HostsFolder + "dispatch.cuh",
		State:  hostsState,
		defines: func(c ep.Config) []string {
			return append(definesHosts(c), defineRoute(c),
				defineInt("EP_RELAY_WARPS", c, "relay_warps"), defineInt("EP_RELAY_CHUNK", c, "relay_chunk"))
		},
		Launches: func(p ep.Problem, c ep.Config) []Launch { return launchesHosts("ep_hosts_dispatch", c) },
	}
}

// combineHosts declares combine over hosts.
func combineHosts() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_hosts",
			Op:   ep.Combine,
			Doc:  "Rows are put back to their token's rank and summed there, by peer pointers inside a host and by NVSHMEM between hosts.",
			Params: append(hostParams(),
				speedParam(kernels.Launch, "wait_sms", "blocks that wait for all senders; the others sum", "SMs", "1", "1", "2"),
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a row that one warp sums at a time", "bytes", "512", "512", "1024", "2048"),
				speedParam(kernels.Launch, "rotate", "1: each rank serves itself first, then the next; 0: all serve rank 0 first", "", "1", "0", "1"),
				routeParam("direct: every row goes to its token's rank; rail: a host sends one sum a token, made by its rank with the place of the token's"),
				hostPartialParam(),
				inFlightParam("4"),
			),
			Check: checkCombineHosts,
		},
		source: HostsFolder + "combine.cuh",
		State:  hostsState,
		defines: func(c ep.Config) []string {
			return append(definesHosts(c), defineRoute(c), Define("EP_PARTIAL", Bit(c.Str("partial") == "bf16")))
		},
		compare: func(c ep.Config) ref.Compare {
			if !isRail(c) {
				return ref.Compare{}
			}
			return preReduced(c) // the bound for sums by rank holds for sums by host too
		},
		Launches: func(p ep.Problem, c ep.Config) []Launch {
			of := launchesHosts("ep_hosts_combine", c)
			for i := range of {
				of[i].Params.Own = CombineParams{Rotate: c.Int("rotate") == 1}
			}
			return of
		},
		dispatch: func(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
			return Fitted(dispatchHosts().Kernel, m, p)
		},
	}
}

func hostParams() []kernels.Param {
	return []kernels.Param{
		threadsParam("128", "256", "512"),
		smsParam("32", "64", "132"),
		speedParam(kernels.Launch, "mode", "fused: send and receive in one kernel; split: in two", "", "fused", "fused", "split"),
		pdlParam("1"),
	}
}

// routeParam declares how tokens or rows cross hosts.
func routeParam(doc string) kernels.Param {
	return speedParam(kernels.Compile, "route", doc, "", "direct", "direct", "rail")
}

// hostPartialParam declares partialParam for a host's sum.
func hostPartialParam() kernels.Param {
	q := partialParam()
	q.Doc = "dtype in which a host sends its sum of a token's rows with route=rail: f32 or bf16"
	return q
}

func isRail(c ep.Config) bool { return c.Str("route") == "rail" }

func defineRoute(c ep.Config) string { return Define("EP_ROUTE", Bit(isRail(c))) }

func definesHosts(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_IN_FLIGHT", c, "in_flight")}
}

func launchesHosts(entry string, c ep.Config) []Launch {
	l := launchOf(entry, c)
	l.Params.WaitSMs, l.Params.CountSMs = c.Int("wait_sms"), c.Int("count_sms")
	l.Params.TileTokens, l.Params.ChunkBytes = c.Int("tile_tokens"), c.Int("chunk_bytes")
	if c.Str("mode") == "fused" {
		return []Launch{l}
	}
	async, wait := l, l
	async.Entry, wait.Entry = entry+"_async", entry+"_wait"
	return []Launch{async, wait}
}

// Fitted returns a kernel's default, with at most the SMs that the machine has.
func Fitted(k kernels.Kernel, m ep.Machine, p ep.Problem) ep.Config {
	return k.DefaultWithin(m, p, m.SMs)
}

// HostKernels lists the kernels that cross hosts. The defaults of their parameters fit the machine,
// because a program that knows these kernels only from a worker's announcement cannot compute
// defaults itself.
func HostKernels(m ep.Machine) []kernels.Kernel {
	var out []kernels.Kernel
	for _, f := range HostDeclarations() {
		k := f.Kernel
		k.Check, k.Work = f.Check, Work(k.Op)
		for i, q := range k.Params {
			k.Params[i].Default = Fitted(k, m, ep.Problem{}).Values[q.Name]
		}
		if k.Op == ep.Combine {
			k.CheckPair = pairCheck(f, HostDeclarations())
		}
		out = append(out, k)
	}
	return out
}

// HostABI names the build of HostKernels.
func HostABI() ep.ABI { return abiOf(HostDeclarations()) }

func checkDispatchHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	err := cmp.Or(checkHosts(m, p, c), checkInFlight(c),
		kernels.CheckRange(c, "count_sms", 1, c.Int("sms")-1),
		kernels.CheckRange(c, "tile_tokens", 1, ep.MaxTokens),
		checkChunk(c, 0),
		checkRoute(p, c),
		kernels.CheckRange(c, "relay_warps", 1, maxHostThreads/Warp),
		kernels.CheckRange(c, "relay_chunk", 1, 1024))
	switch {
	case err != nil:
		return err
	case isRail(c) && c.Int("chunk_bytes") != 0:
		return fmt.Errorf("chunk_bytes: %d, but with route=rail a message is sent in one piece; use 0", c.Int("chunk_bytes"))
	}
	return nil
}

func checkCombineHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkHosts(m, p, c), checkInFlight(c),
		kernels.CheckRange(c, "wait_sms", 1, c.Int("sms")-1),
		checkSwitch(c, "rotate"),
		checkChunk(c, 16),
		checkRoute(p, c),
		checkHostPartial(c))
}

func checkRoute(p ep.Problem, c ep.Config) error {
	if isRail(c) && p.Nodes == 1 {
		return fmt.Errorf("route: rail needs several hosts, and this problem has one; use direct")
	}
	return kernels.CheckWord(c, "route", "direct", "rail")
}

func checkHostPartial(c ep.Config) error {
	if c.Str("partial") == "bf16" && !isRail(c) {
		return fmt.Errorf("partial: bf16 needs route=rail, because route=direct sends no sums; use f32")
	}
	return kernels.CheckWord(c, "partial", "f32", "bf16")
}

// checkHosts checks the conditions that dispatch and combine over hosts have in common. Each rank
// may use all SMs of its GPU.
func checkHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case p.Ranks > maxHostRanks:
		return fmt.Errorf("ranks: %d is more than the %d that the hosts kernels wait for", p.Ranks, maxHostRanks)
	case p.SkipA2A:
		return fmt.Errorf("skip-a2a: with it nothing is sent between hosts; use --backend cuda")
	}
	return cmp.Or(
		checkShape(p),
		checkNVFP4(p),
		kernels.CheckMultiple(c, "threads", Warp, Warp, maxHostThreads, "a warp"),
		kernels.CheckRange(c, "sms", 2, min(maxBlocksEP, max(m.SMs, 2))),
		kernels.CheckWord(c, "mode", "fused", "split"),
		checkSwitch(c, "pdl"))
}

func checkInFlight(c ep.Config) error { return kernels.CheckWord(c, "in_flight", "1", "2", "4", "8") }

// regionsHosts lists EpHostRegion of hosts/layout.cuh.
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

// countersHosts returns the size of EpHostCounter of hosts/layout.cuh.
func countersHosts(p ep.Problem) int { return countersEP(p) + 4*p.Experts + 2*p.Nodes }
