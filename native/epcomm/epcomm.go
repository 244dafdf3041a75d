//go:build cuda

// Package epcomm calls tuned dispatch and combine kernels from Go, through the C library of this folder.
// A pack (a file made by epbench pack) holds the kernels. Each rank is a process or goroutine with its own
// Comm. All ranks make the same calls in the same order. include/epcomm.h states the rules.
//
//	comm, err := epcomm.Create(epcomm.Options{Pack: "model.pack", Rank: rank, Ranks: 2, Device: rank, Gather: gather})
//	call := epcomm.Call{Tokens: n, Fullest: most, X: x, IDs: ids, Weights: w}
//	err = comm.Dispatch(call, stream)   // rows by expert are in comm.Outputs
//	...                                 // experts write y
//	call.Y, call.Combined = y, combined
//	err = comm.Combine(call, stream)
package epcomm

/*
#cgo CFLAGS: -std=gnu99 -O2 -D_GNU_SOURCE -I${SRCDIR}/include -I${SRCDIR}/src -I${SRCDIR}/../include
#cgo LDFLAGS: -ldl -lpthread -lm
#include <stdlib.h>
#include "epcomm.h"

extern int epcommGather(void *context, void *mine, void *all, size_t bytes);
static int gather(void *context, const void *mine, void *all, size_t bytes) {
  return epcommGather(context, (void *)mine, all, bytes);
}
static EpcommStatus create(EpComm **comm, EpcommOptions *o, uintptr_t handle, char *text) {
  o->size = sizeof *o;
  o->all_gather = gather;
  o->context = (void *)handle;
  return epcomm_create(comm, o, text);
}
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Error is an error of the library.
type Error struct {
	Status Status
	Text   string
}

func (e *Error) Error() string { return "epcomm: " + e.Status.String() + ": " + e.Text }

// A Status is the kind of a failure.
type Status int

// The statuses of EpcommStatus, without EPCOMM_OK.
const (
	Invalid  Status = C.EPCOMM_INVALID
	BadPack  Status = C.EPCOMM_PACK
	Driver   Status = C.EPCOMM_DRIVER
	Machine  Status = C.EPCOMM_MACHINE
	Disagree Status = C.EPCOMM_DISAGREE
	Gather   Status = C.EPCOMM_GATHER
	Faulted  Status = C.EPCOMM_FAULT
	Peer     Status = C.EPCOMM_PEER
	Network  Status = C.EPCOMM_NETWORK
)

func (s Status) String() string { return C.GoString(C.epcomm_status_name(C.EpcommStatus(s))) }

// Pointer is an address on the GPU; 0 is no address. Stream is a CUstream; 0 is the default stream.
type (
	Pointer uintptr
	Stream  uintptr
)

// Options has the fields of EpcommOptions in epcomm.h. A field that is zero takes its default.
type Options struct {
	Pack       string
	Rank       int
	Ranks      int
	Device     int
	Deadline   time.Duration // longest wait of a kernel for a peer
	InFlight   int
	Streams    int  // number of streams that may run calls at the same time
	Reduced    bool // accept reduced precision if the pack has it
	MaxSMs     int
	DTypes     []int // values of EpcommDType; empty: all of the pack
	Routing    int   // EpcommRouting of calls whose Routing is 0
	Debug      bool
	ExtraBytes uint64
	Nodes      int    // hosts; 0 means one
	NVSHMEM    string // folder with lib/; "": $EPBENCH_NVSHMEM
	// Gather returns the bytes of all ranks, in the order of ranks.
	Gather func(mine []byte) (all []byte, err error)
}

// A Comm is one rank. Only one goroutine at a time may use it.
type Comm struct {
	c      *C.EpComm
	gather cgo.Handle
}

type gatherer struct {
	ranks int
	f     func([]byte) ([]byte, error)
}

//export epcommGather
func epcommGather(context, mine, all unsafe.Pointer, bytes C.size_t) C.int {
	g := cgo.Handle(uintptr(context)).Value().(gatherer)
	got, err := g.f(unsafe.Slice((*byte)(mine), int(bytes)))
	if err != nil || len(got) != g.ranks*int(bytes) {
		return 1
	}
	copy(unsafe.Slice((*byte)(all), len(got)), got)
	return 0
}

// Create makes a rank. All ranks call it.
func Create(o Options) (*Comm, error) {
	path := C.CString(o.Pack)
	defer C.free(unsafe.Pointer(path))
	c := &Comm{gather: cgo.NewHandle(gatherer{o.Ranks, o.Gather})}
	options := C.EpcommOptions{
		pack: path, rank: C.int(o.Rank), ranks: C.int(o.Ranks), device: C.int(o.Device),
		deadline_ns: C.uint64_t(o.Deadline), in_flight: C.int(o.InFlight), streams: C.int(o.Streams),
		reduced: flag(o.Reduced), max_sms: C.int(o.MaxSMs), routing: C.int(o.Routing), debug: flag(o.Debug),
		extra_bytes: C.uint64_t(o.ExtraBytes), nodes: C.int(o.Nodes),
	}
	if o.NVSHMEM != "" {
		options.nvshmem = C.CString(o.NVSHMEM)
		defer C.free(unsafe.Pointer(options.nvshmem))
	}
	for _, d := range o.DTypes {
		options.dtypes |= 1 << d
	}
	var text [C.EPCOMM_TEXT]C.char
	if s := C.create(&c.c, &options, C.uintptr_t(c.gather), &text[0]); s != C.EPCOMM_OK {
		c.gather.Delete()
		return nil, &Error{Status(s), C.GoString(&text[0])}
	}
	return c, nil
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// check returns an error for each status but EPCOMM_OK.
func (c *Comm) check(s C.EpcommStatus) error {
	if s == C.EPCOMM_OK {
		return nil
	}
	return &Error{Status(s), C.GoString(C.epcomm_error(c.c))}
}

// Destroy waits for the other ranks and frees everything.
func (c *Comm) Destroy() error {
	s := C.epcomm_destroy(c.c)
	c.gather.Delete()
	if s != C.EPCOMM_OK {
		return fmt.Errorf("epcomm: epcomm_destroy: %s", Status(s))
	}
	return nil
}

// Abandon frees everything without waiting for other ranks. Call it if ranks are gone.
func (c *Comm) Abandon() {
	C.epcomm_abandon(c.c)
	c.gather.Delete()
}

// Reset resets all memory after a fault. All ranks call it.
func (c *Comm) Reset() error { return c.check(C.epcomm_reset(c.c)) }

// Fault returns the error of a wait that passed its deadline, or nil.
func (c *Comm) Fault() error { return c.check(C.epcomm_fault(c.c, nil)) }
