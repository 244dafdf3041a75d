//go:build cuda || nvrtc

package compile

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// manyCores is the least number of processors on which units are compiled ahead. With fewer,
// units that no candidate may ever need would delay the ones that are needed now.
const manyCores = 8

// Queue compiles units into the cache in the background, about in the order in which they
// were added.
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

// Add compiles a unit unless it was added before. It reports no errors; Prepare does. Only
// one goroutine may call it.
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

// Close drops units whose compilation has not begun, and waits for the others.
func (q *Queue) Close() {
	q.closed.Store(true)
	q.running.Wait()
}
