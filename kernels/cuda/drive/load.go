//go:build cuda

package drive

// #include "ep_shim.h"
import "C"

import (
	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// syntheticLoad replaces a call beside the product in an experiment. It takes SMs or
// bandwidth.
type syntheticLoad struct {
	entry  []cu.Function // by GPU
	sms    int
	shared int
	ns     int  // how long each block runs
	bytes  int  // how much it moves, 0 for nothing
	engine bool // a copy engine moves the bytes to the next rank and takes no SM
	from   func(rank int) cu.DevicePtr
	to     func(rank int) cu.DevicePtr
}

// write adds the load in the place of call n on a writer's rank. Each load moves bytes of its
// own, since bytes that were moved before may lie in the L2 cache.
func (l *syntheticLoad) write(w *writer, n int) {
	at := cu.DevicePtr(n * l.bytes)
	if l.engine {
		s := w.next(C.EP_STEP_COPY)
		s.source, s.target, s.words = C.uint64_t(l.from(w.rank)+at), C.uint64_t(l.to(w.rank)+at), C.uint64_t(l.bytes/4)
		return
	}
	a := w.base
	a.delay_ns, a.max_rows = C.int32_t(l.ns), C.int64_t(l.bytes/16)
	if l.bytes > 0 {
		point(&a.y, l.from(w.rank)+at)
		point(&a.out, l.to(w.rank)+at)
	}
	threads := declare.MaxThreads
	if l.bytes == 0 {
		threads = declare.Warp // one warp holds an SM as well
	}
	w.kernel(l.entry, l.sms, threads, a).shared = C.uint32_t(l.shared)
}
