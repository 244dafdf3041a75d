package declare

import (
	"cmp"
	"fmt"
	"strings"
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
	return []Declaration{dispatchHosts(), combineHosts()}
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

// ABIOver returns the words of the kernels that KernelsOver lists.
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
				arrivalParam("count: receivers wait until all messages are counted; data: they poll the messages, and between hosts a word that is put after each: one for each rank of a token, for small batches"),
				partParam(),
				speedParam(kernels.Launch, "count_sms", "blocks that count tokens and announce; the others send", "SMs", "2", "2", "8"),
				speedParam(kernels.Launch, "tile_tokens", "received tokens that a block claims at a time", "tokens", "128", "16", "32", "128"),
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a message that one warp puts; 0: all of it", "bytes", "0", "0", "1024", "4096"),
				routeParam("direct: a message to each expert, or with arrival=data to each rank; rail: one to another host, to the rank with the sender's place, which forwards it there"),
				speedParam(kernels.Compile, "relay_warps", "warps of a block that forward under route=rail", "", "4", "1", "4", "16"),
				speedParam(kernels.Compile, "relay_chunk", "messages that a warp forwards in a row", "tokens", "1", "1", "4"),
				inFlightParam("4"),
			),
			Formerly: formerly("dispatch_ll_hosts", strings.Join(dispatchUnpolled, ",")+",arrival=data"),
			Check:    checkDispatchHosts,
			Starts:   startsHosts(dispatchHosts),
		},
		source:  HostsFolder + "dispatch.cuh",
		State:   hostsState,
		stateOf: stateOfHosts,
		defines: func(c ep.Config) []string {
			if pollsData(c) {
				return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_PART_BYTES", c, "part"), defineRoute(c), defineArrival}
			}
			return append(definesHosts(c), defineRoute(c),
				defineInt("EP_RELAY_WARPS", c, "relay_warps"), defineInt("EP_RELAY_CHUNK", c, "relay_chunk"))
		},
		compare: func(c ep.Config) ref.Compare { return ref.Compare{Ordered: pollsData(c)} },
		Launches: func(p ep.Problem, c ep.Config) []Launch {
			if pollsData(c) {
				return launchesHosts("ll_hosts_dispatch", c)
			}
			return launchesHosts("ep_hosts_dispatch", c)
		},
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
				arrivalParam("count: receivers wait until all rows are counted; data: they poll the rows, and between hosts a word that is put after each, for small batches"),
				speedParam(kernels.Launch, "wait_sms", "blocks that wait for all senders; the others sum", "SMs", "1", "1", "2"),
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a row that one warp sums at a time", "bytes", "512", "512", "1024", "2048"),
				speedParam(kernels.Launch, "rotate", "1: each rank serves itself first, then the next; 0: all serve rank 0 first", "", "1", "0", "1"),
				routeParam("direct: every row goes to its token's rank; rail: a host sends one sum a token, made by its rank with the place of the token's"),
				hostPartialParam(),
				inFlightParam("4"),
			),
			Formerly: formerly("combine_ll_hosts", strings.Join(combineUnpolled, ",")+",arrival=data"),
			Check:    checkCombineHosts,
			Starts:   startsHosts(combineHosts),
		},
		source:  HostsFolder + "combine.cuh",
		State:   hostsState,
		stateOf: stateOfHosts,
		defines: func(c ep.Config) []string {
			if pollsData(c) {
				return []string{defineInt("EP_THREADS", c, "threads"), defineArrival}
			}
			return append(definesHosts(c), defineRoute(c), Define("EP_PARTIAL", Bit(c.Str("partial") == "bf16")))
		},
		compare: func(c ep.Config) ref.Compare {
			if !isRail(c) {
				return ref.Compare{}
			}
			return preReduced(c) // the bound for sums by rank holds for sums by host too
		},
		Launches: func(p ep.Problem, c ep.Config) []Launch {
			if pollsData(c) {
				return launchesHosts("ll_hosts_combine", c)
			}
			of := launchesHosts("ep_hosts_combine", c)
			for i := range of {
				of[i].Params.Own = CombineParams{Rotate: c.Int("rotate") == 1}
			}
			return of
		},
		dispatch: func(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
			return Fitted(dispatchHosts().Kernel, m, p).With("arrival", c.Values["arrival"])
		},
	}
}

// arrivalParam declares whether receivers wait for counters or poll the data. The two values use
// different memory.
func arrivalParam(doc string) kernels.Param {
	q := designParam("arrival", doc, "count", "count", "data")
	q.Before = "count"
	return q
}

// partParam declares the part of a message that a warp handles with arrival=data.
func partParam() kernels.Param {
	q := speedParam(kernels.Compile, "part", "with arrival=data, message bytes one receiving or forwarding warp waits for and copies", "bytes", "512", "512", "1024")
	q.Before = "512"
	return q
}

func pollsData(c ep.Config) bool { return c.Str("arrival") == "data" }

const defineArrival = "EP_ARRIVAL_DATA=1"

func stateOfHosts(c ep.Config) State {
	if pollsData(c) {
		return hostsLLState
	}
	return hostsState
}

// dispatchUnpolled and combineUnpolled list the parameters that have no effect with arrival=data, with the only values
// that are legal then.
var (
	dispatchUnpolled = []string{"count_sms=2", "tile_tokens=128", "chunk_bytes=0", "relay_warps=4", "relay_chunk=1", "in_flight=4"}
	combineUnpolled  = []string{"wait_sms=1", "chunk_bytes=512", "rotate=1", "route=direct", "partial=f32", "in_flight=4"}
)

// startsHosts returns a function for Kernel.Starts that returns the default with arrival=data.
func startsHosts(of func() Declaration) func(ep.Machine, ep.Problem) []ep.Config {
	return func(m ep.Machine, p ep.Problem) []ep.Config {
		return []ep.Config{Fitted(of().Kernel, m, p).With("arrival", "data")}
	}
}

func hostParams() []kernels.Param {
	return []kernels.Param{
		threadsParam("128", "256", "512"),
		smsParam("32", "64", "132"),
		speedParam(kernels.Launch, "mode", "fused: one kernel sends and receives; split: one kernel sends and another receives", "", "fused", "fused", "split"),
		pdlParam("1"),
	}
}

// routeParam declares how tokens or rows cross hosts.
func routeParam(doc string) kernels.Param {
	return speedParam(kernels.Compile, "route", doc, "", "direct", "direct", "rail")
}

// hostPartialParam declares the dtype in which a host sends its sum. BF16 rounds the sum once more.
func hostPartialParam() kernels.Param {
	q := speedParam(kernels.Compile, "partial", "dtype in which a host sends its sum of a token's rows with route=rail: f32 or bf16", "", "f32", "f32", "bf16")
	q.Class = kernels.Precision
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

// HostABI returns the words of the kernels that HostKernels lists.
func HostABI() ep.ABI { return abiOf(HostDeclarations()) }

func checkDispatchHosts(m ep.Machine, p ep.Problem, c ep.Config) error {
	if pollsData(c) {
		return cmp.Or(checkHostsLL(m, p, c), kernels.CheckWord(c, "part", "512", "1024", "2048"), checkRoute(p, c), checkUnused(c, "arrival=data", dispatchUnpolled...))
	}
	err := cmp.Or(checkHosts(m, p, c), checkInFlight(c), checkArrival(c), checkUnused(c, "arrival=count", "part=512"),
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
	if pollsData(c) {
		return cmp.Or(checkHostsLL(m, p, c), checkUnused(c, "arrival=data", combineUnpolled...))
	}
	return cmp.Or(checkHosts(m, p, c), checkInFlight(c), checkArrival(c),
		kernels.CheckRange(c, "wait_sms", 1, c.Int("sms")-1),
		checkSwitch(c, "rotate"),
		checkChunk(c, 16),
		checkRoute(p, c),
		checkHostPartial(c))
}

func checkArrival(c ep.Config) error { return kernels.CheckWord(c, "arrival", "count", "data") }

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

// countersHosts returns the number of words that the enum EpHostCounter in hosts/layout.cuh describes.
func countersHosts(p ep.Problem) int { return countersEP(p) + 4*p.Experts + 2*p.Nodes }
