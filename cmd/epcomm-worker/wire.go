//go:build cuda

package main

import "github.com/epbench/epbench/kernels/cuda/declare"

// This file declares the messages between the worker and its rank processes. They are gob-encoded
// and travel over the rank's standard input and output. While a rank works on a request, it may ask
// the worker for the bytes of all ranks. The worker answers this question before it sends other
// requests.

// request is a message from the worker to a rank. Exactly one field is set.
type request struct {
	Place  *place
	Inputs *inputs
	Load   *load
	Prove  *prove
	Fetch  *fetch
	Run    *run
	Gather []byte // the bytes of all ranks, for a rank that asked for them
	End    bool   // the rank process ends
}

// reply answers a request. If Asks is set, it is a question instead: the rank asks for the bytes of
// all ranks, and Gather holds its own bytes.
type reply struct {
	Gather []byte
	Asks   bool
	Error  string
	Fault  bool // Error comes from a wait that passed its deadline
	Data   []byte
	Times  []float64
}

// place holds the rank of a process, the number of ranks, and the GPU to use.
type place struct{ Rank, Ranks, Device int }

// inputs holds a rank's tokens and the arguments that all its calls share.
type inputs struct {
	Tokens, Fullest, Hidden, TopK, Capacity, Groups int

	Index declare.Index // sizes of outputs in bytes

	DType, Routing, Purpose int
	SkipA2A                 bool
	X                       []uint16
	Cast, CastScales        []byte // tokens that the caller has cast, for packs made with --raw; empty if no kernel reads such tokens
	IDs                     []int32
	Weights                 []float32
	Bias                    []uint16
	Scale                   float32
	Expert                  []byte // device binary of the kernel that stands in for the experts
}

// load asks a rank to create a communicator from a pack.
type load struct {
	Pack     string // path of the pack
	Nodes    int
	Deadline int64 // nanoseconds
	Reduced  bool  // take the pack's rows of reduced precision
}

// prove asks for one call into outputs that were filled with 0xff bytes.
type prove struct{ Combine bool }

// fetch asks for pieces of one part of a rank's memory.
type fetch struct {
	Part    string
	Offsets []int
	Bytes   int // bytes of each piece
}

// run asks for measured rounds of a call.
type run struct {
	Op           string
	Rounds, Fold int
}
