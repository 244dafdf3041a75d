package cpu

import (
	"sync"
	"sync/atomic"
	"time"
)

// notifier lets workers that have polled for long sleep until any worker signals. A
// sleeper is counted before it looks a last time, and a ringer reads the count
// after its store, so that no signal is missed.
type notifier struct {
	mu       sync.Mutex
	cond     *sync.Cond
	sleepers atomic.Int64
}

func newNotifier() *notifier {
	n := &notifier{}
	n.cond = sync.NewCond(&n.mu)
	return n
}

// ring wakes everybody. It costs one load when nobody sleeps.
func (n *notifier) notify() {
	if n.sleepers.Load() > 0 {
		n.mu.Lock()
		n.cond.Broadcast()
		n.mu.Unlock()
	}
}

// sleep returns after the next ring, at once when awake says so.
func (n *notifier) sleep(awake func() bool) {
	n.mu.Lock()
	n.sleepers.Add(1)
	if !awake() {
		n.cond.Wait()
	}
	n.sleepers.Add(-1)
	n.mu.Unlock()
}

// every rings at intervals until stop is called, so that sleepers look at
// their deadlines.
func (n *notifier) notifyEvery(d time.Duration) (stop func()) {
	ticker, done := time.NewTicker(d), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				n.notify()
			case <-done:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(done) }
}
