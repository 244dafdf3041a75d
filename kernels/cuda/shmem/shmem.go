//go:build cuda

package shmem

/*
#cgo CFLAGS: -I${SRCDIR}/../../../native/include
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "ep_nvshmem.h"

static void version(const EpShmem *s, int *major, int *minor, int *patch) { s->version(major, minor, patch); }
static uint64_t alloc(const EpShmem *s, size_t bytes) { return (uint64_t)(uintptr_t)s->alloc(bytes); }
static void give(const EpShmem *s, uint64_t p) { s->free((void *)(uintptr_t)p); }
static uint64_t peer(const EpShmem *s, uint64_t p, int rank) { return (uint64_t)(uintptr_t)s->peer((void *)(uintptr_t)p, rank); }
static int add_module(const EpShmem *s, uint64_t module) { return s->add_module((void *)(uintptr_t)module); }
static void quiet(const EpShmem *s) { s->quiet_on_stream(NULL); }
*/
import "C"

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"
)

// ID names a group of ranks.
type ID [C.sizeof_EpShmemID]byte

// Library is a loaded NVSHMEM. All ranks must make the collective calls in the same order. The GPU's primary context
// must be current in each call.
//
// Do not call NVSHMEM's finalize: it waits forever for a dead rank.
type Library struct{ c C.EpShmem }

const hostLibrary = C.EP_SHMEM_LIBRARY

// Open loads the host library of Folder. The host library and the device library must have the same
// version.
func Open() (*Library, error) {
	dir, err := Folder()
	if err != nil {
		return nil, err
	}
	want, err := Version(dir)
	if err != nil {
		return nil, err
	}
	l := &Library{}
	path := C.CString(filepath.Join(dir, "lib", hostLibrary))
	defer C.free(unsafe.Pointer(path))
	var why [512]C.char
	if C.ep_shmem_load(&l.c, path, &why[0], C.size_t(len(why))) != 0 {
		return nil, fmt.Errorf("NVSHMEM: %s", C.GoString(&why[0]))
	}
	var major, minor, patch C.int
	C.version(&l.c, &major, &minor, &patch)
	if got := fmt.Sprintf("%d.%d.%d", major, minor, patch); got != want {
		return nil, fmt.Errorf("NVSHMEM: %s has version %s, but the device library has %s; run make cuda-deps NVSHMEM=1 again",
			hostLibrary, got, want)
	}
	return l, nil
}

// NewID makes the id of a new group. Only rank 0 calls it.
func (l *Library) NewID() (id ID, err error) {
	var c C.EpShmemID
	if r := C.ep_shmem_unique(&l.c, &c); r != 0 {
		return id, fmt.Errorf("NVSHMEM: unique id: error %d; NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME chooses the network interface", int(r))
	}
	return *(*ID)(unsafe.Pointer(&c)), nil
}

// Join makes this process a rank of the group. It is collective: all ranks must call it.
func (l *Library) Join(id ID, rank, ranks int) error {
	c := *(*C.EpShmemID)(unsafe.Pointer(&id))
	if r := C.ep_shmem_join(&l.c, &c, C.int(rank), C.int(ranks)); r != 0 {
		return fmt.Errorf("NVSHMEM: rank %d of %d could not join: error %d; NVSHMEM_DEBUG=INFO tells more%s", rank, ranks, int(r), transportHint())
	}
	return nil
}

func transportHint() string {
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) > 0 || os.Getenv("NVSHMEM_REMOTE_TRANSPORT") != "" {
		return ""
	}
	return "; this host has no InfiniBand device: set NVSHMEM_REMOTE_TRANSPORT=none if all ranks are on one host"
}

// Alloc allocates symmetric memory. It is collective. All ranks must pass the same number of bytes.
func (l *Library) Alloc(bytes int64) (uint64, error) {
	p := C.alloc(&l.c, C.size_t(bytes))
	if p == 0 {
		return 0, fmt.Errorf("NVSHMEM: cannot allocate %d bytes of symmetric memory; raise NVSHMEM_SYMMETRIC_SIZE", bytes)
	}
	return uint64(p), nil
}

// Free gives memory back. It is collective.
func (l *Library) Free(p uint64) { C.give(&l.c, C.uint64_t(p)) }

// Peer returns the address at which this GPU reaches the memory of another rank. It returns 0 if there is none.
func (l *Library) Peer(p uint64, rank int) uint64 {
	return uint64(C.peer(&l.c, C.uint64_t(p), C.int(rank)))
}

// AddModule prepares a CUmodule whose kernels send by NVSHMEM.
func (l *Library) AddModule(module uint64) error {
	if r := C.add_module(&l.c, C.uint64_t(module)); r != 0 {
		return fmt.Errorf("NVSHMEM: module: error %d; host and device library must be of one version", int(r))
	}
	return nil
}

// Quiet makes the default stream wait until all sent data has arrived. The caller must synchronize the stream
// afterwards.
func (l *Library) Quiet() { C.quiet(&l.c) }

func (id ID) Text() string { return hex.EncodeToString(id[:]) }

// ParseID reads an id that Text returned.
func ParseID(s string) (id ID, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("NVSHMEM: %.20q is no unique id", s)
	}
	return ID(b), nil
}
