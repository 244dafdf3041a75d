//go:build cuda || nvrtc

package cuda

import (
	"fmt"
	"runtime"
	"sync"
)

// manyCores is how many processors a host must have for compiling what may
// never be asked for not to be in the way of what is.
const manyCores = 8

// queue compiles variants side by side into the cache, in the order they
// were added, while something else goes on.
type queue struct {
	compiler *compiler
	seen     map[string]bool

	mu      sync.Mutex
	waiting []variant
	idle    int // workers that may still be started
	running sync.WaitGroup
}

func newQueue(c *compiler) *queue {
	q := &queue{compiler: c, seen: map[string]bool{}}
	if n := runtime.NumCPU(); n >= manyCores && c.cache != "" {
		q.idle = n - 2
	}
	return q
}

// add has a variant compiled unless that was asked for before.
func (q *queue) add(v variant) {
	key := fmt.Sprint(v)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seen[key] {
		return
	}
	q.seen[key] = true
	q.waiting = append(q.waiting, v)
	if q.idle > 0 {
		q.idle--
		q.running.Go(q.work)
	}
}

// work compiles until nothing waits. Errors are left for load to report.
func (q *queue) work() {
	for {
		v, ok := q.next()
		if !ok {
			return
		}
		_, _ = q.compiler.compile(v)
	}
}

// next takes the oldest variant; without one the worker is idle again.
func (q *queue) next() (variant, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.idle++
		return variant{}, false
	}
	v := q.waiting[0]
	q.waiting = q.waiting[1:]
	return v, true
}

// close forgets what waits and lets what is being compiled end.
func (q *queue) close() {
	q.mu.Lock()
	q.waiting = nil
	q.mu.Unlock()
	q.running.Wait()
}
