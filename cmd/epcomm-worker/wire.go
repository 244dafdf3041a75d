//go:build cuda

package main

import "github.com/epbench/epbench/kernels/cuda/declare"

// The messages between the worker and its rank processes: gob over the rank's standard input
// and output. While a rank works on a request it may ask for the bytes of all ranks; the
// worker answers that first.

// request is a message from the worker to a rank. Exactly one field is set.
type request struct {
	Place  *place
	Inputs *inputs
	Load   *load
	Prove  *prove
	Fetch  *fetch
	Run    *run
	Gather []byte // the bytes of all ranks, for a rank that asked
	End    bool
}

// reply answers a request. With Asks it asks for the bytes of all ranks instead, and Gather
// holds this rank's.
type reply struct {
	Gather []byte
	Asks   bool
	Error  string
	Fault  bool // Error comes from a wait that passed its deadline
	Data   []byte
	Times  []float64
}

// place holds the rank of a process.
type place struct{ Rank, Ranks, Device int }

// inputs holds a rank's tokens and the arguments that all its calls share.
type inputs struct {
	Tokens, Fullest, Hidden, TopK, Capacity, Groups int

	Index declare.Index // bytes of outputs

	DType, Routing, Purpose int
	SkipA2A                 bool
	X                       []uint16
	Cast, CastScales        []byte // tokens cast by the caller, for packs made with --raw; empty if no kernel takes them
	IDs                     []int32
	Weights                 []float32
	Bias                    []uint16
	Scale                   float32
	Expert                  []byte // device binary that stands in for the experts
}

// load asks for a communicator of a pack.
type load struct {
	Pack     string // its path
	Nodes    int
	Deadline int64 // nanoseconds
	Reduced  bool  // take the pack's rows of reduced precision
}

// prove asks for one call into poisoned outputs.
type prove struct{ Combine bool }

// fetch asks for pieces of one part of a rank's memory.
type fetch struct {
	Part    string
	Offsets []int
	Bytes   int // of each piece
}

// run asks for measured rounds of a call.
type run struct {
	Op           string
	Rounds, Fold int
}
