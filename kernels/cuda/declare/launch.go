package declare

import (
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Launch is one kernel launch of a call.
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

	// Own holds parameters that only some kernels have, in the order of the fields of EpArgs from rotate to peer. See
	// ep_args.h.
	Own [4]int
}

// LaunchWords is the number of int32 launch parameters in a pack. A pack has only the first two of LaunchParams.Own.
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
	if !holds(c, "mode=split") {
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
	l := Launch{Entry: f.Kernel.Name, Grid: c.Int("sms"), Block: c.Int("threads"), PDL: holds(c, "pdl=1"), Shared: sharedBytes(p, c)}
	l.Params = LaunchParams{SMs: l.Grid, WaitSMs: c.Int("wait_sms"), CountSMs: c.Int("count_sms"),
		TileTokens: c.Int("tile_tokens"), ChunkBytes: c.Int("chunk_bytes"), Own: [4]int{c.Int("receivers"), c.Int("pause")}}
	switch {
	case holds(c, "count=receiver"):
		l.Params.Own[0] = l.Block / Warp / 2 // the other warps gather headers and copy
	case holds(c, "rotate=1") && !holds(c, "arrival=data"):
		l.Params.Own[0] = 1
	}
	switch {
	case f.entry != "":
		l.Entry = strings.Join(chosen(c, f.entry), "")
	case f.Kernel.Op == ep.Activation:
		l.Entry = siluEntry(p, c)
	}
	return l
}

// sharedBytes returns the bytes of a block's dynamic shared memory. They hold the marks of count=receiver (see
// markBytes), the ring of combine_final (see ringShared), or the buffer of bulk copies. The buffer of bulk copies has
// room for three messages in a dispatch and for eight rows in a combine.
func sharedBytes(p ep.Problem, c ep.Config) int {
	message := encodingOf(p).Message(p.TopK)
	switch {
	case holds(c, "count=receiver"):
		return markBytes(p)
	case c.Kernel == "combine_final":
		return ringBytes(p, c)
	case !holds(c, "copy=bulk"):
		return 0
	case c.Kernel == "combine":
		return 8 * 2 * p.Hidden
	case holds(c, "algo=dedup"):
		return 3 * message.Dedup
	}
	return 3 * message.Bytes
}
