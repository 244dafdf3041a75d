//go:build cuda

package drive

// #include "ep_shim.h"
import "C"

import (
	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// syntheticLoad runs beside a matrix product in place of a call, and takes SMs or bandwidth.
type syntheticLoad struct {
	entry  []cu.Function // the kernel, by GPU
	sms    int           // blocks, one on each SM
	shared int           // shared memory of each block, bytes
	ns     int           // nanoseconds that each block runs
	bytes  int           // bytes to move, 0 for none
	engine bool          // a copy engine moves the bytes
	from   func(rank int) cu.DevicePtr
	to     func(rank int) cu.DevicePtr
}

// write adds the load for call n. No two loads move the same bytes, because the L2 cache may hold bytes that an
// earlier load has moved.
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
		threads = declare.Warp // enough to occupy an SM
	}
	w.kernel(l.entry, l.sms, threads, a).shared = C.uint32_t(l.shared)
}
