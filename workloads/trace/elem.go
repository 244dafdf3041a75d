package trace

import (
	"encoding/binary"
	"fmt"
	"math"
)

// elem is the type of an array's elements.
type elem struct {
	kind byte // NumPy's letters i, u and f; b means bfloat16
	size int
	big  bool
}

func (d elem) String() string {
	return fmt.Sprintf("%c%d", d.kind, d.size)
}

func (d elem) valid() bool {
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

func (d elem) order() binary.ByteOrder {
	if d.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// int32s decodes integers. An id that does not fit becomes math.MinInt32, which Read refuses.
func (d elem) int32s(dst []int32, b []byte) {
	switch {
	case d.kind == 'i' && d.size == 4 && !d.big:
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case d.kind == 'i' && d.size == 8 && !d.big:
		for i := range dst {
			dst[i] = narrow(int64(binary.LittleEndian.Uint64(b[8*i:])))
		}
	case d.kind == 'u' && d.size == 8: // 2^64-1 must not become -1, a masked selection
		for i := range dst {
			dst[i] = narrow(int64(min(d.bits(b[8*i:]), math.MaxInt64)))
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

// int decodes one integer. A uint64 above the int64 range becomes negative.
func (d elem) int(b []byte) int64 {
	u := d.bits(b)
	if d.kind == 'u' {
		return int64(u)
	}
	shift := 64 - 8*d.size
	return int64(u<<shift) >> shift
}

func (d elem) bits(b []byte) uint64 {
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

func (d elem) float(b []byte) float64 {
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

func half(h uint16) float64 {
	bits := uint32(h&0x8000)<<16 | uint32(h&0x7fff)<<13
	if h&0x7c00 == 0x7c00 { // infinity or NaN
		bits |= 0x7f800000
	}
	return float64(math.Float32frombits(bits) * 0x1p112)
}

func (d elem) logitsHint() string {
	if d.kind != 'f' && d.kind != 'b' {
		return ""
	}
	return "; if these are router logits, --kind logits --topk K computes the ids"
}

// maxCount is the largest count. The sum of MaxExperts such counts fits int64.
const maxCount = 1 << 46

// add adds a row of counts to sum. `first` is the number of the first expert, for errors. The elements may be floats,
// because some recorders store counts as floats.
func (d elem) add(sum []int64, first int, row []byte) error {
	for i := range sum {
		v := d.float(row[i*d.size:])
		if !(v >= 0 && v <= 1<<53) || v != math.Trunc(v) {
			return fmt.Errorf("expert %d: %v is not a count%s", first+i, v, d.logitsHint())
		}
		if sum[i] += int64(v); sum[i] > maxCount {
			return fmt.Errorf("expert %d: more than %d selections", first+i, int64(maxCount))
		}
	}
	return nil
}
