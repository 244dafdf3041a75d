//go:build cuda || nvrtc

package compile

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/epbench/epbench/kernels/cuda/sources"
)

// manyCores is the least number of processors with which units are compiled before they are needed.
// With fewer, units that may never be needed would delay the units that are needed now.
const manyCores = 8

// Queue compiles units (device sources with macros) into the cache in the background, about in the order in
// which they were added.
type Queue struct {
	compiler *Compiler
	seen     map[string]bool
	slots    chan struct{} // bounds the number of compilations at a time; nil if Add compiles nothing
	closed   atomic.Bool
	running  sync.WaitGroup
}

// NewQueue returns a Queue. On a host with few processors, or without a cache, Add does nothing.
func NewQueue(c *Compiler) *Queue {
	q := &Queue{compiler: c, seen: map[string]bool{}}
	if n := runtime.NumCPU(); n >= manyCores && c.cache != "" {
		q.slots = make(chan struct{}, n-2)
	}
	return q
}

// Add starts to compile a unit, unless it was added before. It reports no errors: Compile reports them
// when the unit is needed. Only one goroutine may call Add.
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

// Close drops units whose compilation has not begun, and waits for the others.
func (q *Queue) Close() {
	q.closed.Store(true)
	q.running.Wait()
}
