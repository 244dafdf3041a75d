//go:build cuda

// Package gpu calls the CUDA driver for memory, streams, graphs and kernels. If the driver refuses a call, the
// program prints the error and ends.
package gpu

// #cgo CFLAGS: -std=gnu99 -O2 -D_GNU_SOURCE
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "gpu.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Pointer is an address on the GPU.
type Pointer uintptr

func (p Pointer) c() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Stream, Graph, Module and Kernel are handles of the driver. A Kernel is a function of a Module.
type (
	Stream unsafe.Pointer
	Graph  unsafe.Pointer
	Module unsafe.Pointer
	Kernel unsafe.Pointer
)

// Use keeps this goroutine on one operating-system thread, and makes a device's primary context current there.
func Use(device int) {
	runtime.LockOSThread()
	C.gpu_use(C.int(device))
}

// Alloc allocates memory of the current device.
func Alloc(bytes int64) Pointer { return Pointer(uintptr(C.gpu_alloc(C.size_t(bytes)))) }

// Free frees memory that Alloc returned.
func Free(p Pointer) { C.gpu_free(p.c()) }

// Upload copies a slice to the device and waits for the copy.
func Upload[T any](to Pointer, from []T, s Stream) {
	if len(from) == 0 {
		return
	}
	C.gpu_upload(to.c(), unsafe.Pointer(&from[0]), C.size_t(uintptr(len(from))*unsafe.Sizeof(from[0])), C.GpuStream(s))
	Wait(s)
}

// Download copies device memory to the host and waits for the copy.
func Download(from Pointer, bytes int64, s Stream) []byte {
	out := make([]byte, bytes)
	if bytes > 0 {
		C.gpu_download(unsafe.Pointer(&out[0]), from.c(), C.size_t(bytes), C.GpuStream(s))
	}
	return out
}

// Fill sets every byte of an area to b.
func Fill(p Pointer, b byte, bytes int64, s Stream) {
	C.gpu_fill(p.c(), C.int(b), C.size_t(bytes), C.GpuStream(s))
}

// NewStream makes a stream that does not wait for the default stream.
func NewStream() Stream { return Stream(C.gpu_stream()) }

// Wait waits until all work of a stream has ended.
func Wait(s Stream) { C.gpu_wait(C.GpuStream(s)) }

// Capture returns a graph of the work that f queues on a stream.
func Capture(s Stream, f func() error) (Graph, error) {
	C.gpu_capture(C.GpuStream(s))
	err := f()
	return Graph(C.gpu_captured(C.GpuStream(s))), err
}

// Replay launches a graph on a stream.
func Replay(g Graph, s Stream) { C.gpu_replay(C.GpuGraph(g), C.GpuStream(s)) }

// FreeGraph frees a graph.
func FreeGraph(g Graph) { C.gpu_graph_free(C.GpuGraph(g)) }

// Load loads a device binary. The binary must not change while it loads.
func Load(image []byte) Module {
	p := C.CBytes(image)
	defer C.free(p)
	return Module(C.gpu_load(p))
}

// Function returns a kernel of a module.
func Function(m Module, name string) Kernel {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return Kernel(C.gpu_kernel(unsafe.Pointer(m), c))
}

// Unload unloads a module.
func Unload(m Module) { C.gpu_unload(unsafe.Pointer(m)) }

// Launch runs a kernel whose one parameter is a struct in C memory.
func Launch(k Kernel, grid, block int, parameter unsafe.Pointer, s Stream) {
	C.gpu_launch(unsafe.Pointer(k), C.uint(grid), C.uint(block), parameter, C.GpuStream(s))
}
