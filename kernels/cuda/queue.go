//go:build cuda || nvrtc

package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// manyCores is the least number of processors with which compiling what may
// never be asked for leaves enough of them for what is.
const manyCores = 8

// queue compiles variants side by side into the cache, about in the order they
// were added, while something else goes on.
type queue struct {
	compiler *compiler
	seen     map[string]bool
	slots    chan struct{} // compilations at a time; nil compiles nothing ahead
	closed   atomic.Bool
	running  sync.WaitGroup
}

func newQueue(c *compiler) *queue {
	q := &queue{compiler: c, seen: map[string]bool{}}
	if n := runtime.NumCPU(); n >= manyCores && c.cache != "" {
		q.slots = make(chan struct{}, n-2)
	}
	return q
}

// add has a variant compiled unless that was asked for before. Errors are left
// for load to report. One goroutine may call it.
func (q *queue) add(v variant) {
	key := fmt.Sprint(v)
	if q.slots == nil || q.seen[key] {
		return
	}
	q.seen[key] = true
	q.running.Go(func() {
		q.slots <- struct{}{}
		defer func() { <-q.slots }()
		if !q.closed.Load() {
			_, _ = q.compiler.compile(v)
		}
	})
}

// close drops what has not begun, and waits for what has.
func (q *queue) close() {
	q.closed.Store(true)
	q.running.Wait()
}
