//go:build amd64 && !race

package vec

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var hasAVX2 = cpu.X86.HasAVX2

// sumVector sums as many columns as vector code can, and returns their number.
func sumVector(dst []uint16, rows [][]uint16, weights []float32) int {
	n := len(dst) &^ 7
	if !hasAVX2 || n == 0 || len(rows) == 0 {
		return 0
	}
	for _, r := range rows {
		_ = r[n-1]
	}
	sumAVX2(&dst[0], &rows[0], &weights[0], len(rows), n)
	return n
}

// streamVector copies as many bytes as vector code can, and returns their number.
func streamVector(dst, src []byte) int {
	n := min(len(dst), len(src)) &^ 127
	if !hasAVX2 || n == 0 || !aligned(unsafe.SliceData(dst)) {
		return 0
	}
	streamAVX2(&dst[0], &src[0], n)
	return n
}

// sumAVX2 sums n rows, given as slice headers. cols is a multiple of 8.
//
//go:noescape
func sumAVX2(dst *uint16, rows *[]uint16, weights *float32, n, cols int)

// streamAVX2 copies `bytes` bytes, a multiple of 128, with non-temporal stores and a fence. dst is 32-byte aligned.
//
//go:noescape
func streamAVX2(dst, src *byte, bytes int)
