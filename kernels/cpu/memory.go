package cpu

import (
	"sync/atomic"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// sentinel stands in a count word until a count arrives.
const sentinel = ^uint64(0)

// sets is the number of sets of receive buffers. Two suffice, because a rank is at most one call ahead of another.
const sets = 2

// inbox receives dispatches.
type inbox struct {
	slots    []byte          // [local, sources, maxTokens, message]
	counts   []atomic.Uint64 // [local, sources] rows
	messages []byte          // [sources, maxTokens, dedup message]
	arrived  []atomic.Uint64 // [sources] messages, algo=dedup
}

// returns receives combines.
type returns struct {
	rows     []byte          // [maxTokens, topK, hidden] BF16, algo=direct
	counts   []atomic.Uint64 // [sender's local experts, sources] rows
	partials []byte          // [maxTokens, sources, hidden] BF16, algo=dedup
	arrived  []atomic.Uint64 // [sources] partial sums
}

// rank is the memory of one rank. Other ranks write only to inbox and returns.
type rank struct {
	id      int
	tokens  int
	x       []uint16  // [tokens, hidden]
	in      []uint16  // [rows, 2 hidden] activation input
	experts []int32   // [tokens, topK]
	gates   []float32 // [tokens, topK] router weights
	shared  span      // tokens for which this rank computes the shared expert

	inbox   [sets]inbox
	returns [sets]returns

	out         []byte // [maxRows, payload]
	scales      []byte
	offsets     []uint32  // [groups+1]
	ids         []int32   // [groups]
	ranges      []uint64  // [local, sources] layout masked
	localExpert []int32   // [maxRows, topK] layouts by rank; -1: not on this rank
	localWeight []float32 // [maxRows, topK] layouts by rank
	srcInfo     []int32   // [maxRows, 2]
	blocks      []uint32  // [groups] NVFP4 scale offsets
	y           []uint16  // [maxRows, hidden] experts' results
	combined    []uint16  // [tokens, hidden]

	arrivals
	progress
}

// arrivals describes the received rows. A pair is a local expert and a source rank.
type arrivals struct {
	counts  []int64 // [pairs] rows
	rowsTo  []int   // [pairs+1] rows before each pair
	pairRow []int   // [pairs] first output row
	fromRow []int   // [sources] first output row, layouts by rank

	messages  []int     // [sources+1] messages before each source, algo=dedup
	msgToken  []int32   // [sources, maxTokens] token on its rank
	msgRow    []int32   // [sources, maxTokens, topK] output row, or -1
	msgWeight []float32 // [sources, maxTokens, topK]
}

// progress holds counters that a rank's workers share during a kernel. Between kernels they are zero.
type progress struct {
	send, move atomic.Int64   // next unit to claim
	sent       atomic.Int64   // workers that have sent
	polled     atomic.Int64   // workers that have received all counts
	ready      atomic.Bool    // arrivals is complete
	expertSlot []atomic.Int64 // [experts] next slot
	rankSlot   []atomic.Int64 // [ranks] next slot, algo=dedup
	cursor     []atomic.Int64 // [pairs] next row
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
