package cpu

import (
	"sync/atomic"
	"unsafe"
)

func (r *rank) ensureInbox(s shape, dedup bool, a *arena) error {
	alloc := allocator{a: a}
	for i := range r.inbox {
		in := &r.inbox[i]
		if dedup && in.messages == nil {
			in.messages = alloc.bytes(s.sources * s.MaxTokens * s.header.Dedup)
		}
		if !dedup && in.slots == nil {
			in.slots = alloc.bytes(s.local * s.sources * s.MaxTokens * s.header.Bytes)
		}
	}
	if dedup && r.msgToken == nil {
		n := s.sources * s.MaxTokens
		r.messages = make([]int, s.sources+1)
		r.msgToken = make([]int32, n)
		r.msgRow = make([]int32, n*s.TopK)
		r.msgWeight = make([]float32, n*s.TopK)
	}
	return alloc.err
}

func (r *rank) ensureReturns(s shape, dedup bool, a *arena) error {
	alloc := allocator{a: a}
	for i := range r.returns {
		back := &r.returns[i]
		if dedup && back.partials == nil {
			back.partials = alloc.bytes(s.MaxTokens * s.sources * s.rowBytes)
		}
		if !dedup && back.rows == nil {
			back.rows = alloc.bytes(s.MaxTokens * s.TopK * s.rowBytes)
		}
	}
	return alloc.err
}

// allocator keeps an arena's first error.
type allocator struct {
	a   *arena
	err error
}

func (a *allocator) bytes(n int) []byte {
	b, err := a.a.bytes(n)
	if a.err == nil {
		a.err = err
	}
	return b
}

func words(n int) []atomic.Uint64 {
	out := make([]atomic.Uint64, n)
	rearm(out)
	return out
}

// rearm sets each word to the sentinel, and returns how many words held a count.
func rearm(words []atomic.Uint64) int {
	left := 0
	for i := range words {
		if words[i].Swap(sentinel) != sentinel {
			left++
		}
	}
	return left
}

func (r *rank) rearm() int {
	left := 0
	for i := range sets {
		left += rearm(r.inbox[i].counts) + rearm(r.inbox[i].arrived)
		left += rearm(r.returns[i].counts) + rearm(r.returns[i].arrived)
	}
	r.progress.reset()
	return left
}

// halves returns an arena's bytes as 16-bit values, without a copy.
func halves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

func octets(h []uint16) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(h))), 2*len(h))
}
