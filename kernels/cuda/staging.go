//go:build cuda

package cuda

import "slices"

// leastStaging keeps sizes few, so that a buffer serves many.
const leastStaging = 1 << 20

// takeStaging gives host memory of n bytes at least that the GPU can write.
// Like arenas it stays when a session goes, since to pin it takes longer than
// to fill it. The GPU's context is current.
func (g *gpu) takeStaging(n int) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	best := -1
	for i, b := range g.staging {
		if len(b) >= n && (best < 0 || len(b) < len(g.staging[best])) {
			best = i
		}
	}
	if best >= 0 {
		b := g.staging[best]
		g.staging = slices.Delete(g.staging, best, best+1)
		return b, nil
	}
	size := leastStaging
	for size < n {
		size *= 2
	}
	return newHost(size)
}

// giveStaging ends the use of a buffer; it may be none.
func (g *gpu) giveStaging(b []byte) {
	if len(b) == 0 {
		return
	}
	g.mu.Lock()
	g.staging = append(g.staging, b)
	g.mu.Unlock()
}

// freeStaging gives back what nobody uses.
func (g *gpu) freeStaging() {
	for _, b := range g.staging {
		freeHost(b)
	}
	g.staging = nil
}
