//go:build cuda || nvrtc

package compile

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/epbench/epbench/kernels/cuda/sources"
)

// manyCores is the smallest number of processors with which a Queue compiles in the background.
const manyCores = 8

// Queue compiles units into the cache in the background.
type Queue struct {
	compiler *Compiler
	seen     map[string]bool
	slots    chan struct{} // bounds parallel compilations; nil: Add does nothing
	closed   atomic.Bool
	running  sync.WaitGroup
}

// NewQueue returns a Queue. With few processors, or without a cache, Add does nothing.
func NewQueue(c *Compiler) *Queue {
	q := &Queue{compiler: c, seen: map[string]bool{}}
	if n := runtime.NumCPU(); n >= manyCores && c.cache != "" {
		q.slots = make(chan struct{}, n-2)
	}
	return q
}

// Add starts to compile a unit. A later Compile reports errors. Only one goroutine may call Add.
func (q *Queue) Add(u sources.Unit) {
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

// Close drops units whose compilation has not begun, and waits for the compilations that have begun.
func (q *Queue) Close() {
	q.closed.Store(true)
	q.running.Wait()
}
