package cpu

import (
	"sync"
	"sync/atomic"
	"time"
)

// notifier lets workers sleep until any worker signals. A worker first counts itself as a sleeper, and then checks once
// more for a signal. A signaling worker first stores the signal, and then counts the sleepers. So no signal is missed.
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

func (n *notifier) notify() {
	if n.sleepers.Load() > 0 {
		n.mu.Lock()
		n.cond.Broadcast()
		n.mu.Unlock()
	}
}

// sleep returns after the next notify, or at once if awake().
func (n *notifier) sleep(awake func() bool) {
	n.mu.Lock()
	n.sleepers.Add(1)
	if !awake() {
		n.cond.Wait()
	}
	n.sleepers.Add(-1)
	n.mu.Unlock()
}

// notifyEvery makes sleepers check their deadlines.
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
