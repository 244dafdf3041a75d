package worker

import (
	"strings"
	"sync"
	"time"
)

// heard stores the lines that a backend shows.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) line(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, s)
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// with returns the text once it contains `want`, or after five seconds. It waits because output may arrive after the
// answer.
func (h *heard) with(want string) string {
	for range 500 {
		if strings.Contains(h.text(), want) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return h.text()
}
