// Package vec holds the CPU backend's fast loops. Vector code and portable code give the same bits.
package vec

import (
	"embed"
	"math"
	"unsafe"
)

//go:embed *.go *.s
var Sources embed.FS

// Sum writes bf16(sum over k of weights[k] * rows[k]) to dst. It adds in float32, in the order of k. Every row needs
// len(dst) values.
func Sum(dst []uint16, rows [][]uint16, weights []float32) {
	done := sumVector(dst, rows, weights)
	sumPortable(dst, rows, weights, done)
}

// Stream copies src to dst past the caches. If the caller then stores an atomic value, a goroutine that reads
// this value also sees the data.
func Stream(dst, src []byte) {
	n := streamVector(dst, src)
	copy(dst[n:], src[n:])
}

// Add writes bf16(dst + src) to dst.
func Add(dst, src []uint16) {
	for i, b := range src[:len(dst)] {
		dst[i] = round(widen(dst[i]) + widen(b))
	}
}

func sumPortable(dst []uint16, rows [][]uint16, weights []float32, from int) {
	var acc [64]float32
	for ; from < len(dst); from += len(acc) {
		n := min(len(acc), len(dst)-from)
		clear(acc[:n])
		for k, row := range rows {
			w := weights[k]
			for i, b := range row[from : from+n] {
				acc[i] += float32(w * widen(b))
			}
		}
		for i, v := range acc[:n] {
			dst[from+i] = round(v)
		}
	}
}

func widen(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

func round(x float32) uint16 {
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func aligned(p *byte) bool { return uintptr(unsafe.Pointer(p))%32 == 0 }
