//go:build cuda || nvrtc

package compile

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// manyCores is the least number of processors with which compiling what may
// never be asked for leaves enough of them for what is.
const manyCores = 8

// Queue compiles units side by side into the cache, about in the order they
// were added, while something else goes on.
type Queue struct {
	compiler *Compiler
	seen     map[string]bool
	slots    chan struct{} // compilations at a time; nil compiles nothing ahead
	closed   atomic.Bool
	running  sync.WaitGroup
}

// NewQueue compiles nothing on a host with few processors, or without a cache.
func NewQueue(c *Compiler) *Queue {
	q := &Queue{compiler: c, seen: map[string]bool{}}
	if n := runtime.NumCPU(); n >= manyCores && c.cache != "" {
		q.slots = make(chan struct{}, n-2)
	}
	return q
}

// Add has a unit compiled unless that was asked for before. Errors are left
// for Prepare to report. One goroutine may call it.
func (q *Queue) Add(u declare.Unit) {
	key := u.Key()
	if q.slots == nil || q.seen[key] {
		return
	}
	q.seen[key] = true
	q.running.Go(func() {
		q.slots <- struct{}{}
		defer func() { <-q.slots }()
		if !q.closed.Load() {
			_, _ = q.compiler.Compile(u)
		}
	})
}

// Close drops what has not begun, and waits for what has.
func (q *Queue) Close() {
	q.closed.Store(true)
	q.running.Wait()
}
