package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Launch is one kernel of a call.
type Launch struct {
	Entry  string // name of the __global__ function
	Grid   int    // blocks, all resident at once
	Block  int    // threads of each block
	Shared int    // dynamic shared memory of a block, bytes
	PDL    bool   // programmatic dependent launch
	Params LaunchParams
}

// LaunchParams holds the launch parameters of EpArgs, under the same names.
type LaunchParams struct {
	SMs, WaitSMs, CountSMs, TileTokens, ChunkBytes int

	// Own holds parameters of single kernels, in the order of EpArgs from rotate to peer. See ep_args.h.
	Own [4]int
}

// LaunchWords is the number of int32 launch parameters in a pack, where LaunchParams.Own has two words.
const LaunchWords = 5 + 2

// Words returns the launch parameters in the order of EpArgs.
func (l Launch) Words() [LaunchWords]int32 {
	p := l.Params
	return [...]int32{int32(p.SMs), int32(p.WaitSMs), int32(p.CountSMs), int32(p.TileTokens), int32(p.ChunkBytes), int32(p.Own[0]), int32(p.Own[1])}
}

// Launches returns the launches of one call, the same on every rank. With mode=split the first launch sends and the
// second receives.
func (f Declaration) Launches(p ep.Problem, c ep.Config) []Launch {
	l := f.launch(p, c)
	if !isSplit(c) {
		return []Launch{l}
	}
	send, recv := l, l
	if _, grids := c.Values["recv_sms"]; !grids {
		send.Entry, recv.Entry = l.Entry+"_async", l.Entry+"_wait"
		return []Launch{send, recv}
	}
	send.Entry, recv.Entry = l.Entry+"_send", l.Entry+"_recv"
	recv.Grid, recv.Params.SMs = c.Int("recv_sms"), c.Int("recv_sms")
	recv.PDL = false // an early start would take SMs from the sender
	return []Launch{send, recv}
}

func (f Declaration) launch(p ep.Problem, c ep.Config) Launch {
	l := Launch{Entry: f.Kernel.Name, Grid: c.Int("sms"), Block: c.Int("threads"), PDL: c.Int("pdl") == 1}
	l.Params = LaunchParams{SMs: l.Grid, WaitSMs: c.Int("wait_sms"), CountSMs: c.Int("count_sms"),
		TileTokens: c.Int("tile_tokens"), ChunkBytes: c.Int("chunk_bytes"), Own: [4]int{c.Int("receivers"), c.Int("pause")}}
	switch {
	case countsReceiver(c):
		l.Params.Own[0] = l.Block / Warp / 2 // the other warps gather headers and copy
	case c.Int("rotate") == 1 && !pollsData(c):
		l.Params.Own[0] = 1
	}
	if f.entry != nil {
		l.Entry = f.entry(p, c)
	}
	if f.shared != nil {
		l.Shared = f.shared(p, c)
	}
	return l
}

func isSplit(c ep.Config) bool { return c.Str(kernels.ModeParam) == kernels.ModeSplit }
