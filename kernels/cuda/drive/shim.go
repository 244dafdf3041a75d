//go:build cuda

package drive

// This file includes the C code of native/shim, because Go compiles C files only in the folder of a package. Go does
// not notice changes in native/shim, so native/cuda.mk passes a hash of the folder in CGO_CFLAGS.

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../../native/include -I${SRCDIR}/../../../native/shim
#cgo LDFLAGS: -lcuda -lpthread
#include "ep_shim.c"
#include "ep_product.c"
_Static_assert(sizeof(EpControl) == 256, "TimingParts reserves 256 bytes");
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"
)

func driverError(what string, result C.int) error {
	if result == 0 {
		return nil
	}
	var text [C.EP_TEXT_BYTES]C.char
	C.ep_describe(result, &text[0])
	return fmt.Errorf("%s: %s", what, C.GoString(&text[0]))
}

// handle returns the only field of v, the driver's handle.
func handle[T cu.CUContext | cu.Function | cu.Stream | cu.Event | cu.Module](v T) C.uint64_t {
	return C.uint64_t(*(*uintptr)(unsafe.Pointer(&v)))
}

type occupancy struct{ blocksPerSM, registers, localBytes, maxThreads int }

func readyFunction(f cu.Function, block, shared int) (occupancy, error) {
	var out C.EpFunction
	r := C.ep_function(handle(f), C.uint32_t(block), C.uint32_t(shared), &out)
	o := occupancy{int(out.blocks_per_sm), int(out.registers), int(out.local_bytes), int(out.max_threads)}
	return o, driverError("function attributes", r)
}

func newFault() (host *C.EpFault, device cu.DevicePtr, err error) {
	p, d, err := allocHost(C.sizeof_EpFault)
	return (*C.EpFault)(p), d, err
}

func allocHost(bytes int) (host unsafe.Pointer, device cu.DevicePtr, err error) {
	var d C.uint64_t
	err = driverError("pinned host memory", C.ep_host_alloc(C.size_t(bytes), &host, &d))
	return host, cu.DevicePtr(d), err
}

func newHost(bytes int) ([]byte, error) {
	p, _, err := allocHost(bytes)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

func freeHost(b []byte) {
	if len(b) > 0 {
		C.ep_host_free(unsafe.Pointer(&b[0]))
	}
}

func freeFault(host *C.EpFault) {
	if host != nil {
		C.ep_host_free(unsafe.Pointer(host))
	}
}

func readFault(f *C.EpFault) (r faultRecord, ok bool) {
	return faultRecord{
		rank: int(f.rank), phase: int(f.phase), expert: int(f.expert), source: int(f.source),
		block: int(f.block), want: uint64(f.want), got: uint64(f.got),
	}, f.set != 0
}

func clearFault(f *C.EpFault) { *f = C.EpFault{} }

type cSteps struct {
	ranks []C.EpRank
	steps [][]C.EpStep
}

func newCSteps(n, count int) *cSteps {
	c := &cSteps{ranks: unsafe.Slice((*C.EpRank)(C.calloc(C.size_t(n), C.sizeof_EpRank)), n)}
	for i := range c.ranks {
		p := (*C.EpStep)(C.calloc(C.size_t(max(count, 1)), C.sizeof_EpStep))
		c.ranks[i].steps, c.ranks[i].count = p, C.int32_t(count)
		c.steps = append(c.steps, unsafe.Slice(p, count))
	}
	return c
}

// setEvents sets the events of rank i. They alternate between the start and the end of a call.
func (c *cSteps) setEvents(i int, events []cu.Event) {
	p := (*C.uint64_t)(C.calloc(C.size_t(len(events)+1), 8))
	slots := unsafe.Slice(p, len(events))
	for j, e := range events {
		slots[j] = handle(e)
	}
	c.ranks[i].events, c.ranks[i].pairs = p, C.int32_t(len(events)/2)
}

// capture makes every rank's CUDA graph. After an error no rank keeps a graph.
func (c *cSteps) capture() error {
	err := sideBySide(len(c.ranks), func(i int) error {
		return driverError(fmt.Sprintf("capture the graph of rank %d", i), C.ep_capture(&c.ranks[i]))
	})
	if err != nil {
		c.release()
	}
	return err
}

func (c *cSteps) release() {
	for i := range c.ranks {
		C.ep_release(&c.ranks[i])
	}
}

// free releases c, which must not be running.
func (c *cSteps) free() {
	c.release()
	for i := range c.ranks {
		C.free(unsafe.Pointer(c.ranks[i].steps))
		C.free(unsafe.Pointer(c.ranks[i].events))
	}
	C.free(unsafe.Pointer(&c.ranks[0]))
	c.ranks, c.steps = nil, nil
}

// progress returns each rank's number of finished rounds. It may be called while c runs.
func (c *cSteps) progress() []int {
	out := make([]int, len(c.ranks))
	for i := range c.ranks {
		out[i] = int(atomic.LoadInt32((*int32)(&c.ranks[i].finished)))
	}
	return out
}

var errFault = errors.New("a kernel gave up waiting")

// refusal means that the driver refused a launch. No kernel is running.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

type batch struct {
	rounds int
	window int   // rounds queued at a time
	words  int   // readings of each rank in a round
	limit  int64 // longest wait, in nanoseconds
}

// run returns readings, [rank][round][word]. After an error of ctx, errFault or a *refusal, this process can still use
// the GPUs. After any other error it cannot use the GPUs.
func (c *cSteps) run(ctx context.Context, b batch) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := len(c.ranks) * b.rounds * b.words
	rows := C.calloc(C.size_t(n+1), 8)
	defer C.free(rows)
	batch := (*C.EpBatch)(C.calloc(1, C.sizeof_EpBatch))
	batch.ranks, batch.count = &c.ranks[0], C.int32_t(len(c.ranks))
	batch.rounds, batch.window = C.int32_t(b.rounds), C.int32_t(b.window)
	batch.row_bytes, batch.rows = C.uint64_t(8*b.words), (*C.uint8_t)(rows)
	batch.limit_ns = C.uint64_t(b.limit)
	defer C.free(unsafe.Pointer(batch))
	told := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		atomic.StoreInt32((*int32)(&batch.stop), 1)
		close(told)
	})
	end := C.ep_run(batch)
	if !forget() {
		<-told // AfterFunc writes to batch, which is freed on return
	}
	if end == C.EP_END_OK {
		out := make([]uint64, n)
		copy(out, unsafe.Slice((*uint64)(rows), n))
		return out, nil
	}
	reason := fmt.Sprintf("rank %d: %s", batch.bad_rank, C.GoString(&batch.text[0]))
	switch end {
	case C.EP_END_STOPPED:
		return nil, ctx.Err()
	case C.EP_END_FAULT:
		return nil, errFault
	case C.EP_END_REFUSED:
		return nil, &refusal{reason}
	case C.EP_END_STUCK:
		return nil, fmt.Errorf("the GPUs do not finish their work: %s", reason)
	}
	return nil, fmt.Errorf("a CUDA context is lost: %s", reason)
}
