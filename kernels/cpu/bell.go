package cpu

import (
	"sync"
	"sync/atomic"
	"time"
)

// bell lets workers that have polled for long sleep until any worker signals. A
// sleeper is counted before it looks a last time, and a ringer reads the count
// after its store, so that no signal is missed.
type bell struct {
	mu       sync.Mutex
	cond     *sync.Cond
	sleepers atomic.Int64
}

func newBell() *bell {
	b := &bell{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// ring wakes everybody. It costs one load when nobody sleeps.
func (b *bell) ring() {
	if b.sleepers.Load() > 0 {
		b.mu.Lock()
		b.cond.Broadcast()
		b.mu.Unlock()
	}
}

// sleep returns after the next ring, at once when awake says so.
func (b *bell) sleep(awake func() bool) {
	b.mu.Lock()
	b.sleepers.Add(1)
	if !awake() {
		b.cond.Wait()
	}
	b.sleepers.Add(-1)
	b.mu.Unlock()
}

// every rings at intervals until stop is called, so that sleepers look at
// their deadlines.
func (b *bell) every(d time.Duration) (stop func()) {
	ticker, done := time.NewTicker(d), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				b.ring()
			case <-done:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(done) }
}
