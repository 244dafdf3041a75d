//go:build cuda

package drive

import (
	"fmt"
	"time"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/shmem"
	"github.com/epbench/epbench/kernels/cuda/sources"
)

// world describes all launched ranks.
type world struct {
	rank, ranks, nodes int
	library            *shmem.Library
	heap               *arena // symmetric
}

func newWorldRankSet(n *node, w *world, deadline time.Duration) (*rankSet, error) {
	r, err := newBareRankSet(n, 1, deadline)
	if err != nil {
		return nil, err
	}
	r.world = w
	if err := r.loadSupport(sources.Unit{Source: sources.HostsFolder + "align.cuh"}, "_hosts"); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *rankSet) rankOf(local int) int {
	if r.world != nil {
		return r.world.rank
	}
	return local
}

func (r *rankSet) count() int {
	if r.world != nil {
		return r.world.ranks
	}
	return len(r.local)
}

func (r *rankSet) parts() []declare.Region {
	if r.world == nil {
		return declare.TimingParts()
	}
	return append(declare.TimingParts(), declare.Zeroed(declare.PartWorld, int64(16*r.world.ranks)))
}

// takeArena returns memory for a heap. If there are several processes, all ranks must call takeArena with the same
// sizes.
func (r *rankSet) takeArena(g *gpu, n int64) (*arena, error) {
	if r.world == nil {
		return g.take(n + r.spare())
	}
	return r.world.take(g, n)
}

func (w *world) take(g *gpu, n int64) (*arena, error) {
	if w.heap != nil && w.heap.bytes >= n {
		return w.heap, nil
	}
	err := g.do(func() error {
		if w.heap != nil {
			w.library.Free(uint64(w.heap.base))
			w.heap = nil
		}
		p, err := w.library.Alloc(n)
		if err == nil {
			w.heap = &arena{base: cu.DevicePtr(p), bytes: n}
		}
		return err
	})
	return w.heap, err
}

// idle returns the bytes of the present heap. A larger heap replaces it.
func (w *world) idle() int64 {
	if w == nil || w.heap == nil {
		return 0
	}
	return w.heap.bytes
}

// joinWorld writes the heap addresses of this host's ranks to the table that hosts/transport.cuh reads.
func (r *rankSet) joinWorld() error {
	w := r.world
	if w == nil || r.heap.Offset[declare.PartWorld] == 0 {
		return nil
	}
	table := make([]uint64, w.ranks)
	perNode := w.ranks / w.nodes
	for q := w.rank / perNode * perNode; q < (w.rank/perNode+1)*perNode; q++ {
		err := r.local[0].gpu.do(func() error { table[q] = w.library.Peer(uint64(w.heap.base), q); return nil })
		if err != nil {
			return err
		}
		if table[q] == 0 {
			return fmt.Errorf("nodes: rank %d cannot address the memory of rank %d, although --nodes %d puts both on one host; use more nodes", w.rank, q, w.nodes)
		}
	}
	return upload(r, 0, declare.PartWorld, table)
}
