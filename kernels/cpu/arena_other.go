//go:build !linux || race

package cpu

import "unsafe"

// arena takes memory from the Go heap, where the race detector can see it.
type arena struct{}

func (*arena) bytes(n int) ([]byte, error) {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), nil
}

func (*arena) free() error { return nil }
