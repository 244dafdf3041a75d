//go:build linux && !race

package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// arena allocates memory outside the Go heap. There, only written pages take physical memory.
type arena struct{ mapped [][]byte }

func (a *arena) bytes(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d MiB: %w", n>>20, err)
	}
	// Huge pages would take memory for unwritten parts.
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		return nil, fmt.Errorf("madvise: %w", err)
	}
	a.mapped = append(a.mapped, b)
	return b, nil
}

func (a *arena) free() error {
	var first error
	for _, b := range a.mapped {
		if err := unix.Munmap(b); err != nil && first == nil {
			first = err
		}
	}
	a.mapped = nil
	return first
}
