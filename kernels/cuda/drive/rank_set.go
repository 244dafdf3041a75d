//go:build cuda

package drive

// #include "ep_shim.h"
import "C"

import (
	"fmt"
	"math/rand/v2"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// localRank is one rank of this process.
type localRank struct {
	gpu         *gpu
	stream      cu.Stream
	streams     C.EpStreams       // zero without a matrix product
	fault       *C.EpFault        // host address of the fault record
	faultDevice cu.DevicePtr      // GPU address of the fault record
	arena       *arena            // nil before allocation
	staging     map[string][]byte // host memory for gather, by part
}

// rankSet holds the ranks of this process and their memory.
type rankSet struct {
	node     *node
	local    []localRank
	heap     declare.Heap
	support  map[string][]cu.Function // kernels by name and GPU
	deadline time.Duration            // longest wait of a kernel
	refill   func() error             // uploads inputs after reset; may be nil
	world    *world                   // nil if this process has all ranks
	shift    int64                    // bytes from an arena to its heap
}

// A heap begins at a random multiple of shiftStep, up to maxShift, because addresses affect times.
const (
	shiftStep = 2 << 20 // a page of GPU memory
	maxShift  = 64 << 20
)

// supportEntries lists the kernels of common/align.cuh.
var supportEntries = []string{"ep_align", "ep_stamp", "ep_clear_spans", "ep_advance", "ep_next_round", "ep_empty"}

// newRankSet makes `ranks` ranks on the GPUs in order. Ranks share GPUs if there are more ranks than GPUs.
func newRankSet(n *node, ranks int, deadline time.Duration) (*rankSet, error) {
	r, err := newBareRankSet(n, ranks, deadline)
	if err != nil {
		return nil, err
	}
	if err := r.loadSupport(sources.Unit{Source: "common/align.cuh"}, ""); err != nil {
		return nil, err
	}
	return r, nil
}

func newBareRankSet(n *node, ranks int, deadline time.Duration) (*rankSet, error) {
	r := &rankSet{node: n, deadline: deadline, support: map[string][]cu.Function{}, shift: shiftStep * rand.Int64N(1+maxShift/shiftStep)}
	for i := range ranks {
		s := localRank{gpu: n.gpus[i%len(n.gpus)]}
		err := s.gpu.do(func() (err error) {
			if s.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
				return err
			}
			s.fault, s.faultDevice, err = newFault()
			return err
		})
		r.local = append(r.local, s)
		if err != nil {
			r.close()
			return nil, fmt.Errorf("rank %d on GPU %d: %w", i, s.gpu.index, err)
		}
	}
	return r, nil
}

// loadSupport loads the kernels supportEntries from a unit. The names of those in `crossing` end with `suffix`.
func (r *rankSet) loadSupport(u sources.Unit, suffix string) error {
	m, err := r.node.load(u)
	if err == nil {
		err = r.findSupport(m, suffix)
	}
	if err != nil {
		r.close()
	}
	return err
}

// crossing lists the support kernels that reach other ranks.
var crossing = map[string]bool{"ep_align": true, "ep_stamp": true, "ep_next_round": true}

func (r *rankSet) findSupport(m *module, suffix string) error {
	for _, entry := range supportEntries {
		name := entry
		if crossing[entry] {
			name += suffix
		}
		fs, err := m.function(name)
		if err != nil {
			return err
		}
		for i, f := range fs {
			err := r.node.gpus[i].do(func() error { _, err := readyFunction(f, declare.Warp, 0); return err })
			if err != nil {
				return fmt.Errorf("%s on GPU %d: %w", entry, i, err)
			}
		}
		r.support[entry] = fs
	}
	return nil
}

func (r *rankSet) close() {
	r.release()
	for i := range r.local {
		s := &r.local[i]
		_ = s.gpu.do(func() error {
			freeFault(s.fault)
			C.ep_streams_free(&s.streams)
			for _, b := range s.staging {
				s.gpu.giveStaging(b)
			}
			if s.stream != cu.NoStream {
				return s.stream.Destroy()
			}
			return nil
		})
	}
	r.local = nil
}

func (r *rankSet) release() {
	for i := range r.local {
		s := &r.local[i]
		if s.arena != nil && r.world == nil {
			s.gpu.give(s.arena)
		}
		s.arena = nil
	}
}

// allocate replaces every rank's heap, fills it and uploads the inputs. With too little memory the old heap stays, and
// the error is a Failure.
func (r *rankSet) allocate(parts []declare.Region) error {
	h := declare.NewHeap(parts)
	if r.world == nil { // if each rank has a process of its own, checkFits has checked before
		if err := r.checkMemory(h); err != nil {
			return err
		}
	}
	r.release()
	r.heap = h
	err := sideBySide(len(r.local), func(i int) (err error) {
		s := &r.local[i]
		if s.arena, err = r.takeArena(s.gpu, h.Bytes); err != nil {
			return fmt.Errorf("rank %d: allocate %s on GPU %d: %w", i, gib(h.Bytes), s.gpu.index, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.reset()
}

// memoryMargin is the number of bytes that stay free for the driver.
const memoryMargin = 512 << 20

func (r *rankSet) checkMemory(h declare.Heap) error {
	for _, g := range r.node.gpus {
		var want, have int64
		for _, s := range r.local {
			if s.gpu == g {
				want += h.Bytes + r.spare()
				if s.arena != nil && r.world == nil {
					have += s.arena.bytes
				}
			}
		}
		err := g.do(func() error {
			free, _, err := cu.MemInfo()
			have += free + g.idle() + r.world.idle() - memoryMargin
			return err
		})
		if err != nil {
			return fmt.Errorf("GPU %d: memory: %w", g.index, err)
		}
		if want > have {
			return kernels.Failf(ep.LaunchFailed, "buffers need %s on GPU %d, where %s are free; %s; lower --max-tokens or --ranks",
				gib(want), g.index, gib(max(have, 0)), largest(h))
		}
	}
	return nil
}

// reset fills every part, clears faults and uploads the inputs.
func (r *rankSet) reset() error {
	for i := range r.local {
		clearFault(r.local[i].fault)
	}
	if err := r.fill(r.heap.Parts); err != nil {
		return err
	}
	if err := r.joinWorld(); err != nil {
		return err
	}
	if r.refill == nil {
		return nil
	}
	return r.refill()
}

func (r *rankSet) fill(parts []declare.Region) error {
	return sideBySide(len(r.local), func(i int) error {
		err := r.local[i].gpu.do(func() error {
			for _, p := range parts {
				if p.Bytes == 0 {
					continue
				}
				if err := cu.MemsetD8(r.at(i, p.Name), p.Fill, p.Bytes); err != nil {
					return fmt.Errorf("fill %s: %w", p.Name, err)
				}
			}
			return cu.Synchronize()
		})
		if err != nil {
			return fmt.Errorf("rank %d: %w", i, err)
		}
		return nil
	})
}

func (r *rankSet) base(rank int) cu.DevicePtr {
	if a := r.local[rank].arena; a != nil {
		return a.base + cu.DevicePtr(min(r.shift, r.spare()))
	}
	return 0
}

// spare returns by how many bytes a heap can be shifted in its arena. It returns 0 if each rank has a process of its
// own, because the heaps of all processes must have the same layout.
func (r *rankSet) spare() int64 {
	if r.world != nil {
		return 0
	}
	return maxShift
}

// at returns the address of a part, or 0.
func (r *rankSet) at(rank int, part string) cu.DevicePtr {
	offset, ok := r.heap.Offset[part]
	if !ok || r.base(rank) == 0 {
		return 0
	}
	return r.base(rank) + cu.DevicePtr(offset)
}

func upload[T any](r *rankSet, rank int, part string, data []T) error {
	return r.local[rank].gpu.do(func() error {
		if err := put(r, rank, part, data); err != nil {
			return err
		}
		return cu.Synchronize()
	})
}

// put copies a slice to a part. Call it on the thread of the GPU. It may return before the last bytes arrive.
func put[T any](r *rankSet, rank int, part string, data []T) error {
	if len(data) == 0 {
		return nil
	}
	bytes := int64(len(data)) * int64(unsafe.Sizeof(data[0]))
	if err := cu.MemcpyHtoD(r.at(rank, part), unsafe.Pointer(&data[0]), bytes); err != nil {
		return fmt.Errorf("rank %d: upload %s: %w", rank, part, err)
	}
	return nil
}

// download returns n elements of a part from `first` on.
func download[T any](r *rankSet, rank int, part string, first, n int) ([]T, error) {
	out := make([]T, n)
	if n == 0 {
		return out, nil
	}
	size := int64(unsafe.Sizeof(out[0]))
	err := r.local[rank].gpu.do(func() error {
		from := r.at(rank, part) + cu.DevicePtr(int64(first)*size)
		return cu.MemcpyDtoH(unsafe.Pointer(&out[0]), from, int64(n)*size)
	})
	if err != nil {
		return nil, fmt.Errorf("rank %d: download %s: %w", rank, part, err)
	}
	return out, nil
}

func (r *rankSet) faults() []faultRecord {
	var out []faultRecord
	for _, s := range r.local {
		if f, ok := readFault(s.fault); ok {
			out = append(out, f)
		}
	}
	return out
}

func point[T any](field **T, at cu.DevicePtr) { *(*uintptr)(unsafe.Pointer(field)) = uintptr(at) }

// args returns the fields of EpArgs that all kernels of a rank share.
func (r *rankSet) args(rank int) C.EpArgs {
	s := r.local[rank]
	a := C.EpArgs{
		rank: C.int32_t(r.rankOf(rank)), ranks: C.int32_t(r.count()),
		deadline_ns: C.uint64_t(r.deadline.Nanoseconds()), allreduce_size: 1,
	}
	point(&a.fault, s.faultDevice)
	for i := range r.local {
		point(&a.control[i], r.at(i, declare.PartControl))
		point(&a.heap[i], r.base(i))
	}
	if r.world != nil {
		point(&a.heap[1], r.at(0, declare.PartWorld))
	}
	point(&a.counters, r.at(rank, declare.PartAbort))
	return a
}

func largest(h declare.Heap) string {
	var most declare.Region
	for _, p := range h.Parts {
		if p.Bytes > most.Bytes {
			most = p
		}
	}
	return fmt.Sprintf("%s takes %s", most.Name, gib(most.Bytes))
}

func gib(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }
