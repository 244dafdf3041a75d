//go:build cuda

package drive

import (
	"slices"

	"gorgonia.org/cu"
)

// arena is GPU memory for one heap at a time. Later heaps use the arena again, because allocating memory
// takes longer than a measurement.
type arena struct {
	base  cu.DevicePtr
	bytes int64
}

type pool[T any] []T

// take removes and returns the smallest item of at least n bytes.
func (p *pool[T]) take(n int64, bytes func(T) int64) (item T, ok bool) {
	best := -1
	for i, x := range *p {
		if bytes(x) >= n && (best < 0 || bytes(x) < bytes((*p)[best])) {
			best = i
		}
	}
	if best < 0 {
		return item, false
	}
	item = (*p)[best]
	*p = slices.Delete(*p, best, best+1)
	return item, true
}

// take returns an arena of at least n bytes. If no idle arena is large enough, all idle arenas are freed.
func (g *gpu) take(n int64) (*arena, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a, ok := g.arenas.take(n, func(a *arena) int64 { return a.bytes }); ok {
		return a, nil
	}
	a := &arena{bytes: n}
	err := g.do(func() (err error) {
		if err := g.freeIdle(); err != nil {
			return err
		}
		a.base, err = cu.MemAlloc(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// freeIdle frees the idle arenas. The GPU's context must be current.
func (g *gpu) freeIdle() (err error) {
	g.arenas = slices.DeleteFunc(g.arenas, func(a *arena) bool {
		if err != nil {
			return false
		}
		err = cu.MemFree(a.base)
		return err == nil
	})
	return err
}

func (g *gpu) give(a *arena) {
	g.mu.Lock()
	g.arenas = append(g.arenas, a)
	g.mu.Unlock()
}

func (g *gpu) idle() (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.arenas {
		n += a.bytes
	}
	return n
}

// leastStaging is the smallest staging buffer in bytes.
const leastStaging = 1 << 20

// takeStaging returns pinned host memory of at least n bytes. The GPU's context must be current.
func (g *gpu) takeStaging(n int) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b, ok := g.staging.take(int64(n), func(b []byte) int64 { return int64(len(b)) }); ok {
		return b, nil
	}
	size := leastStaging
	for size < n {
		size *= 2
	}
	return newHost(size)
}

func (g *gpu) giveStaging(b []byte) {
	if len(b) == 0 {
		return
	}
	g.mu.Lock()
	g.staging = append(g.staging, b)
	g.mu.Unlock()
}

func (g *gpu) freeStaging() {
	for _, b := range g.staging {
		freeHost(b)
	}
	g.staging = nil
}
