//go:build !linux || race

package cpu

import "unsafe"

// arena allocates from the Go heap, the only memory that the race detector sees.
type arena struct{}

func (*arena) bytes(n int) ([]byte, error) {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), nil
}

func (*arena) free() error { return nil }
