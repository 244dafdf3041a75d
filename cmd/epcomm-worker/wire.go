//go:build cuda

package main

import "github.com/epbench/epbench/kernels/cuda/declare"

// The worker and a rank process exchange messages as gob over the rank's standard input and output. Before a rank
// replies, it may ask for an all-gather, which epcomm needs to exchange bytes between ranks.

// request is a message to a rank. Exactly one field is set.
type request struct {
	Place  *place
	Inputs *inputs
	Load   *load
	Prove  *prove
	Fetch  *fetch
	Run    *run
	Gather []byte // result of an all-gather: the bytes of all ranks
	End    bool   // the process ends
}

// reply answers a request. If Asks is set, Gather holds the bytes of this rank, and the rank asks for the bytes of all
// ranks.
type reply struct {
	Gather []byte
	Asks   bool
	Error  string
	Fault  bool // Error comes from a wait that passed its deadline
	Data   []byte
	Times  []float64
}

type place struct{ Rank, Ranks, Device int }

// inputs holds a rank's tokens and the arguments that all its calls share.
type inputs struct {
	Tokens, Fullest, Hidden, TopK, Capacity, Groups int

	Index declare.Index // sizes of outputs in bytes

	DType, Routing, Purpose int
	SkipA2A                 bool
	X                       []uint16
	Cast, CastScales        []byte // cast tokens, for packs made with --raw; else empty
	IDs                     []int32
	Weights                 []float32
	Bias                    []uint16
	Scale                   float32
	Expert                  []byte // device binary of the stand-in for the experts
}

// load asks a rank to create a communicator from a pack.
type load struct {
	Pack     string
	Nodes    int
	Deadline int64 // nanoseconds
	Reduced  bool  // configs of reduced precision may be launched
}

// prove asks for one call into outputs that were filled with 0xff bytes.
type prove struct{ Combine bool }

type fetch struct {
	Part    string
	Offsets []int
	Bytes   int // bytes of each piece
}

type run struct {
	Op           string
	Rounds, Fold int
}
