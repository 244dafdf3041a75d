//go:build cuda

package cuda

import (
	"slices"

	"gorgonia.org/cu"
)

// arena is memory of a GPU that heaps are laid out in, one after another. It
// stays when its heap goes: to take tens of gigabytes from the driver, and map
// them on every peer, takes longer than most candidates.
type arena struct {
	base  cu.DevicePtr
	bytes int64
	taken bool
}

// take gives n bytes at least: the smallest arena that nobody uses and that
// they fit in, else a new one in place of all that nobody uses.
func (g *gpu) take(n int64) (*arena, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var best *arena
	for _, a := range g.arenas {
		if !a.taken && a.bytes >= n && (best == nil || a.bytes < best.bytes) {
			best = a
		}
	}
	if best != nil {
		best.taken = true
		return best, nil
	}
	if err := g.do(g.freeIdle); err != nil {
		return nil, err
	}
	a := &arena{bytes: n, taken: true}
	if err := g.do(func() (err error) { a.base, err = cu.MemAlloc(n); return err }); err != nil {
		return nil, err
	}
	g.arenas = append(g.arenas, a)
	return a, nil
}

// freeIdle gives back what nobody uses.
func (g *gpu) freeIdle() (err error) {
	g.arenas = slices.DeleteFunc(g.arenas, func(a *arena) bool {
		if a.taken || err != nil {
			return false
		}
		err = cu.MemFree(a.base)
		return err == nil
	})
	return err
}

// give ends the use of an arena.
func (g *gpu) give(a *arena) {
	g.mu.Lock()
	a.taken = false
	g.mu.Unlock()
}

// idle is how many bytes nobody uses.
func (g *gpu) idle() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	for _, a := range g.arenas {
		if !a.taken {
			n += a.bytes
		}
	}
	return n
}
