package cpu

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Bounds that legality names.
const (
	MaxRanks  = 16
	maxBlocks = 64
	maxChunk  = 1 << 20
	maxTile   = 1 << 16
)

const (
	modeFused = "fused"
	modeSplit = "split"

	algoDirect = "direct"
	algoDedup  = "dedup"

	storesCached = "cached"
	storesStream = "stream"
)

// Kernels lists the kernels of this backend. The first of an op carries the
// default that every gain is measured against.
func Kernels() []kernels.Kernel {
	dispatch := kernels.Kernel{
		Name:    "dispatch",
		Op:      ep.Dispatch,
		Doc:     "Sends each token to its experts' ranks and lays it out by expert.",
		Params:  params(kernels.Speed),
		Check:   check,
		Layouts: ep.Layouts(),
		Default: defaults("dispatch"),
	}
	combine := kernels.Kernel{
		Name:    "combine",
		Op:      ep.Combine,
		Doc:     "Returns the experts' rows and sums them by router weight.",
		Params:  params(kernels.Precision),
		Check:   check,
		Pairs:   pairs,
		Layouts: ep.Layouts(),
		Default: defaults("combine"),
	}
	return []kernels.Kernel{dispatch, combine, activationKernel()}
}

// params declares the parameters of both kernels. Their algo differs in class:
// a de-duplicating dispatch delivers the same rows, a de-duplicating combine
// rounds partial sums.
func params(algoClass kernels.Class) []kernels.Param {
	launch := func(name, doc, unit string, cost kernels.Cost, values ...ep.Value) kernels.Param {
		return kernels.Param{Name: name, Doc: doc, Unit: unit, Values: values, Default: values[0],
			Binding: kernels.Launch, Class: kernels.Speed, Cost: cost}
	}
	algo := launch("algo", "a message per selected expert, or one per distinct rank that the receiver expands "+
		"and that is summed there before it returns", "", kernels.BufferCost, algoDirect, algoDedup)
	algo.Class = algoClass
	return []kernels.Param{
		launch("blocks", "workers of a rank", "workers", kernels.SMCost, "1", "2", "4"),
		launch("wait_blocks", "workers of these that only wait for peers; 0: all wait, then all work",
			"workers", kernels.NoCost, "0", "1"),
		launch("chunk_bytes", "bytes of a row moved or reduced at a time", "bytes", kernels.NoCost, "16384", "2048"),
		launch("tile_tokens", "rows claimed at a time", "tokens", kernels.NoCost, "4", "32"),
		launch("mode", "one kernel, or one that sends and one that waits", "", kernels.NoCost, modeFused, modeSplit),
		algo,
		launch("stores", "write rows through the caches or past them", "", kernels.NoCost, storesCached, storesStream),
	}
}

// check is the legality of a config of either kernel.
func check(_ ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkProblem(p),
		kernels.CheckNames(c, params(kernels.Speed)),
		kernels.CheckRange(c, "blocks", 1, maxBlocks),
		kernels.CheckRange(c, "wait_blocks", 0, c.Int("blocks")-1),
		kernels.CheckMultiple(c, "chunk_bytes", dtype.Align, dtype.Align, maxChunk, "one 16-byte vector"),
		kernels.CheckRange(c, "tile_tokens", 1, maxTile),
		kernels.CheckWord(c, "mode", modeFused, modeSplit),
		checkAlgo(p, c),
		kernels.CheckWord(c, "stores", storesCached, storesStream))
}

// checkAlgo: by rank, there is one message for each distinct rank and no other way.
func checkAlgo(p ep.Problem, c ep.Config) error {
	if p.Layout.ByRank() && c.Str("algo") != algoDedup {
		return fmt.Errorf("algo: %s; with layout %s a token goes once to each rank: use %s", c.Str("algo"), p.Layout, algoDedup)
	}
	return kernels.CheckWord(c, "algo", algoDirect, algoDedup)
}

func checkProblem(p ep.Problem) error {
	switch {
	case p.Ranks > MaxRanks:
		return fmt.Errorf("ranks: %d is above %d, the most that cpu runs", p.Ranks, MaxRanks)
	case p.Nodes != 1:
		return fmt.Errorf("nodes: %d, cpu is one node", p.Nodes)
	case p.Mode != ep.Eager:
		return fmt.Errorf("mode: %q, cpu knows %q only", p.Mode, ep.Eager)
	case strings.HasPrefix(p.Beside, ep.Step+":"):
		return fmt.Errorf("beside: a step needs streams that wait for each other, which cuda has; use gemm or copy")
	case p.Experts > dtype.NoExpert:
		return fmt.Errorf("experts: %d is above %d, what a message can name", p.Experts, dtype.NoExpert)
	}
	return nil
}

// pairs: to sum at the experts' rank, combine needs the router weights and the
// rows of each message, which only a de-duplicating dispatch leaves there.
func pairs(dispatch, combine ep.Config) error {
	if combine.Str("algo") == algoDedup && dispatch.Str("algo") != algoDedup {
		return fmt.Errorf("combine.algo: dedup needs dispatch.algo=dedup, which carries the router weights")
	}
	return nil
}

// streamFrom is the number of received bytes above which the caches no longer
// hold them until they are read.
const streamFrom = 8 << 20

// defaults uses every hardware thread with as few workers a rank as that takes,
// and streams rows that the caches cannot hold.
func defaults(name string) func(ep.Machine, ep.Problem) ep.Config {
	return func(m ep.Machine, p ep.Problem) ep.Config {
		c := kernels.Kernel{Name: name, Params: params(kernels.Speed)}.DefaultConfig(m, p)
		if p.Ranks < m.SMs {
			c = c.With("blocks", "2")
		}
		if p.Ranks*p.Tokens*p.TopK*p.Hidden*2 > streamFrom {
			c = c.With("stores", storesStream)
		}
		if p.Layout.ByRank() {
			c = c.With("algo", algoDedup)
		}
		return c
	}
}

// launch is a decoded config.
type launch struct {
	blocks, waitBlocks int
	chunk, tile        int
	split              bool
	dedup              bool
	stream             bool
}

func decode(c ep.Config) launch {
	return launch{
		blocks:     c.Int("blocks"),
		waitBlocks: c.Int("wait_blocks"),
		chunk:      c.Int("chunk_bytes"),
		tile:       c.Int("tile_tokens"),
		split:      c.Str("mode") == modeSplit,
		dedup:      c.Str("algo") == algoDedup,
		stream:     c.Str("stores") == storesStream,
	}
}

// pollers is how many workers poll for arrivals.
func (l launch) pollers() int {
	if l.waitBlocks == 0 {
		return l.blocks
	}
	return l.waitBlocks
}
