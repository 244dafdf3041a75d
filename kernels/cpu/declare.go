package cpu

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

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
		Name:      "combine",
		Op:        ep.Combine,
		Doc:       "Returns the experts' rows and sums them by router weight.",
		Params:    params(kernels.Precision),
		Check:     check,
		CheckPair: checkPair,
		Layouts:   ep.Layouts(),
		Default:   defaults("combine"),
	}
	return []kernels.Kernel{dispatch, combine, activationKernel()}
}

// params returns the parameters of dispatch or combine. algoClass is the class of the parameter `algo`: Speed for a
// dispatch, Precision for a combine, where algo=dedup rounds partial sums.
func params(algoClass kernels.Class) []kernels.Param {
	launch := func(name, doc, unit string, cost kernels.Cost, values ...ep.Value) kernels.Param {
		return kernels.Param{Name: name, Doc: doc, Unit: unit, Values: values, Default: values[0],
			Binding: kernels.Launch, Class: kernels.Speed, Cost: cost}
	}
	algo := launch("algo", "direct: one message for each selected expert; dedup: one message for each distinct rank, which copies the token "+
		"to its experts and sums their rows before they return", "", kernels.BufferCost, algoDirect, algoDedup)
	algo.Class = algoClass
	return []kernels.Param{
		launch("blocks", "workers of a rank", "workers", kernels.SMCost, "1", "2", "4"),
		launch("wait_blocks", "number of workers that only wait for other ranks, while the others move or sum rows; 0: every worker first waits, then moves or sums rows",
			"workers", kernels.NoCost, "0", "1"),
		launch("chunk_bytes", "bytes of a row moved or reduced at a time", "bytes", kernels.NoCost, "16384", "2048"),
		launch("tile_tokens", "rows claimed at a time", "tokens", kernels.NoCost, "4", "32"),
		launch("mode", "fused: one kernel; split: one kernel that sends and one that receives", "", kernels.NoCost, modeFused, modeSplit),
		algo,
		launch("stores", "cached: write rows through the caches; stream: write past the caches", "", kernels.NoCost, storesCached, storesStream),
	}
}

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

func checkAlgo(p ep.Problem, c ep.Config) error {
	if p.Layout.ByRank() && c.Str("algo") != algoDedup {
		return fmt.Errorf("algo: %s, but in layout %s a rank receives each token once; use %s", c.Str("algo"), p.Layout, algoDedup)
	}
	return kernels.CheckWord(c, "algo", algoDirect, algoDedup)
}

func checkProblem(p ep.Problem) error {
	switch {
	case p.Ranks > MaxRanks:
		return fmt.Errorf("ranks: %d is above %d, the most that the cpu backend runs", p.Ranks, MaxRanks)
	case p.Nodes != 1:
		return fmt.Errorf("nodes: %d, but the cpu backend runs on one node; use 1", p.Nodes)
	case p.Mode != ep.Eager:
		return fmt.Errorf("mode: %q, but the cpu backend knows only %q", p.Mode, ep.Eager)
	case strings.HasPrefix(p.Beside, ep.Step+":"):
		return fmt.Errorf("beside: the cpu backend cannot run a step, which needs two streams; use gemm or copy")
	case p.Experts > dtype.NoExpert:
		return fmt.Errorf("experts: %d is above %d, the largest id in a message", p.Experts, dtype.NoExpert)
	}
	return nil
}

func checkPair(dispatch, combine ep.Config) error {
	if combine.Str("algo") == algoDedup && dispatch.Str("algo") != algoDedup {
		return fmt.Errorf("combine.algo: dedup needs dispatch.algo=dedup, which sends the router weights")
	}
	return nil
}

// streamFrom is a number of bytes. If all ranks together receive more bytes, the default config writes past the caches.
const streamFrom = 8 << 20

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

func (l launch) pollers() int {
	if l.waitBlocks == 0 {
		return l.blocks
	}
	return l.waitBlocks
}
