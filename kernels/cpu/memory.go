package cpu

import (
	"sync/atomic"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// sentinel is the value of a count word before a count arrives.
const sentinel = ^uint64(0)

// sets is the number of sets of receive buffers. Calls use them in turn. Two are enough: each call waits
// for counts of all ranks, so a rank is at most one call ahead of another.
const sets = 2

// inbox is the memory to which the dispatches of all ranks write. With algo=direct it has slots for each
// expert and source, with algo=dedup for each source. The buffers are allocated when a config needs them.
type inbox struct {
	slots    []byte          // [local, sources, maxTokens, message]
	counts   []atomic.Uint64 // [local, sources] number of rows for an expert from a source
	messages []byte          // [sources, maxTokens, dedup message]
	arrived  []atomic.Uint64 // [sources] number of messages, with algo=dedup
}

// returns is the memory to which the combines of all ranks write rows back.
type returns struct {
	rows     []byte          // [maxTokens, topK, hidden] BF16 rows, with algo=direct
	counts   []atomic.Uint64 // [local experts of the sender, sources] number of rows
	partials []byte          // [maxTokens, sources, hidden] BF16 partial sums, with algo=dedup
	arrived  []atomic.Uint64 // [sources] number of partial sums
}

// rank is the memory of one rank. Other ranks write only to inbox and returns.
type rank struct {
	id      int
	tokens  int
	x       []uint16  // [tokens, hidden]
	in      []uint16  // [rows, 2 hidden] input of an activation
	experts []int32   // [tokens, topK]
	gates   []float32 // [tokens, topK] router weights
	shared  span      // tokens whose shared expert runs here

	inbox   [sets]inbox
	returns [sets]returns

	out         []byte // [maxRows, payload]
	scales      []byte
	offsets     []uint32  // [groups+1]
	ids         []int32   // [groups]
	ranges      []uint64  // [local, sources] only in layout masked
	localExpert []int32   // [maxRows, topK] only in layouts by rank: local expert of each position, -1 if there is none
	localWeight []float32 // [maxRows, topK] only in layouts by rank: weight of each local expert
	srcInfo     []int32   // [maxRows, 2]
	blocks      []uint32  // [groups] NVFP4 scale offsets
	y           []uint16  // [maxRows, hidden] results of the experts
	combined    []uint16  // [tokens, hidden]

	arrivals
	progress
}

// arrivals describes the rows that a dispatch received, for the combine that returns them. A pair here is a
// local expert and a source rank.
type arrivals struct {
	counts  []int64 // [local*sources] number of rows of each pair
	rowsTo  []int   // [local*sources+1] number of rows before each pair, without padding
	pairRow []int   // [local*sources] first output row of each pair
	fromRow []int   // [sources] only in layouts by rank: first output row of each source

	messages  []int     // [sources+1] only with algo=dedup: number of messages before each source
	msgToken  []int32   // [sources, maxTokens] number of each message's token on its rank
	msgRow    []int32   // [sources, maxTokens, topK] output row, -1 if the expert is on another rank
	msgWeight []float32 // [sources, maxTokens, topK] router weight
}

// progress holds the counters that the workers of a rank share during one kernel. Between kernels all are
// zero.
type progress struct {
	send, move atomic.Int64   // number of the next unit of work to claim, for sending and for copying
	sent       atomic.Int64   // number of workers that have sent everything
	polled     atomic.Int64   // number of workers that have seen all their counts
	ready      atomic.Bool    // whether arrivals is complete
	expertSlot []atomic.Int64 // [experts] next slot of each expert
	rankSlot   []atomic.Int64 // [ranks] next slot on each rank, with algo=dedup
	cursor     []atomic.Int64 // [local*sources] next row of each pair
}

func (p *progress) reset() {
	p.send.Store(0)
	p.move.Store(0)
	p.sent.Store(0)
	p.polled.Store(0)
	p.ready.Store(false)
	for _, words := range [][]atomic.Int64{p.expertSlot, p.rankSlot, p.cursor} {
		for i := range words {
			words[i].Store(0)
		}
	}
}

func newRank(w *workloads.Workload, s shape, id int, a *arena) (*rank, error) {
	routing := w.Ranks[w.BatchRank(id)]
	r := &rank{id: id, tokens: routing.Tokens, experts: routing.Experts, gates: routing.Weights}
	r.shared.start, r.shared.count = w.SharedSlice(id)
	pairs := s.local * s.sources
	r.arrivals = arrivals{counts: make([]int64, pairs), rowsTo: make([]int, pairs+1), pairRow: make([]int, pairs)}
	r.progress.expertSlot = make([]atomic.Int64, s.Experts)
	r.progress.rankSlot = make([]atomic.Int64, s.Ranks)
	r.progress.cursor = make([]atomic.Int64, pairs)
	r.offsets, r.ids, r.blocks = make([]uint32, s.groups+1), make([]int32, s.groups), make([]uint32, s.groups)
	r.srcInfo = make([]int32, 2*s.maxRows)
	switch {
	case s.byRank:
		r.localExpert, r.localWeight, r.fromRow = make([]int32, s.maxRows*s.TopK), make([]float32, s.maxRows*s.TopK), make([]int, s.sources)
	case s.room > 0:
		r.ranges = make([]uint64, pairs)
	}

	alloc := allocator{a: a}
	r.x = halves(alloc.bytes(r.tokens * s.rowBytes))
	r.out = alloc.bytes(s.maxRows * s.encoding.Payload)
	r.scales = alloc.bytes(dtype.OutputScaleBytes(s.encoding, s.groups, s.maxRows))
	for i := range sets {
		r.inbox[i].counts, r.inbox[i].arrived = words(pairs), words(s.sources)
		r.returns[i].counts, r.returns[i].arrived = words(pairs), words(s.sources)
	}
	if s.combines() {
		r.y = halves(alloc.bytes(s.maxRows * s.rowBytes))
		r.combined = halves(alloc.bytes(r.tokens * s.rowBytes))
	}
	if alloc.err != nil {
		return nil, alloc.err
	}
	if s.Op == ep.Activation {
		return r, nil
	}
	for t := range r.tokens {
		w.Token(w.BatchRank(id), t, r.x[t*s.Hidden:(t+1)*s.Hidden])
	}
	return r, nil
}
