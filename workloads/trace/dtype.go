package trace

import (
	"encoding/binary"
	"fmt"
	"math"
)

// dtype is the type of an array's elements.
type dtype struct {
	kind byte // i, u, f, or b for bfloat16
	size int  // bytes
	big  bool // big-endian
}

func (d dtype) String() string {
	return fmt.Sprintf("%c%d", d.kind, d.size)
}

// valid tells the types that are read.
func (d dtype) valid() bool {
	switch d.kind {
	case 'i', 'u':
		return d.size == 1 || d.size == 2 || d.size == 4 || d.size == 8
	case 'f':
		return d.size == 2 || d.size == 4 || d.size == 8
	case 'b':
		return d.size == 2
	}
	return false
}

func (d dtype) order() binary.ByteOrder {
	if d.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// int32s decodes integers. Ids that do not fit become math.MinInt32, which no
// check accepts. The common types have loops of their own: a trace is read at
// the speed of the disk.
func (d dtype) int32s(dst []int32, b []byte) {
	switch {
	case d.kind == 'i' && d.size == 4 && !d.big:
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case d.kind == 'i' && d.size == 8 && !d.big:
		for i := range dst {
			dst[i] = narrow(int64(binary.LittleEndian.Uint64(b[8*i:])))
		}
	default:
		for i := range dst {
			dst[i] = narrow(d.int(b[i*d.size:]))
		}
	}
}

func narrow(v int64) int32 {
	if v < math.MinInt32 || v > math.MaxInt32 {
		return math.MinInt32
	}
	return int32(v)
}

// int decodes one integer; unsigned ones above its range become negative.
func (d dtype) int(b []byte) int64 {
	u := d.bits(b)
	if d.kind == 'u' {
		return int64(u)
	}
	shift := 64 - 8*d.size
	return int64(u<<shift) >> shift
}

func (d dtype) bits(b []byte) uint64 {
	switch d.size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(d.order().Uint16(b))
	case 4:
		return uint64(d.order().Uint32(b))
	}
	return d.order().Uint64(b)
}

// float decodes one element of any type.
func (d dtype) float(b []byte) float64 {
	u := d.bits(b)
	switch {
	case d.kind == 'i' || d.kind == 'u':
		return float64(d.int(b))
	case d.kind == 'b':
		return float64(math.Float32frombits(uint32(u) << 16))
	case d.size == 2:
		return half(uint16(u))
	case d.size == 4:
		return float64(math.Float32frombits(uint32(u)))
	}
	return math.Float64frombits(u)
}

// half is the value of an IEEE binary16.
func half(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(frac, -24)
	switch exp {
	case 31:
		v = math.Inf(1)
		if frac != 0 {
			v = math.NaN()
		}
	case 0:
	default:
		v = math.Ldexp(1024+frac, exp-25)
	}
	if h>>15 == 1 {
		return -v
	}
	return v
}
