package ref

import "math"

// sumBounds holds the lowest and highest correct BF16 number of each element.
type sumBounds struct {
	low, high []uint16  // [hidden] results of placeOf; if low > high, no number is correct
	exact     []float32 // [hidden]
}

func (b sumBounds) bytes() int { return 8 * len(b.exact) }

func (o *Oracle) finished(rank, token int, c Compare) Sum {
	s := o.CombineRow(rank, token, c.Partial)
	c.Epilogue.apply(s)
	return s
}

func (o *Oracle) boundsOf(rank, token int, c Compare) sumBounds {
	compute := func() sumBounds { return o.finished(rank, token, c).bounds(c.Bits) }
	if c.Epilogue != nil {
		return compute()
	}
	return o.sums.get(c.sumKind()*len(o.w.Ranks)+rank, token, compute)
}

const sumKinds = 5

func (c Compare) sumKind() int {
	switch {
	case c.Bits:
		return 2 + int(c.Partial)
	case c.Partial == BF16Partial:
		return 1
	}
	return 0
}

// bounds returns the bounds of a sum. If `bits` is true, only the expected number is within the bounds.
func (s Sum) bounds(bits bool) sumBounds {
	n := len(s.Exact)
	b := sumBounds{make([]uint16, n), make([]uint16, n), make([]float32, n)}
	for i, exact := range s.Exact {
		b.exact[i] = float32(exact)
		if bits {
			b.low[i] = placeOf(s.Want[i])
			b.high[i] = b.low[i]
			continue
		}
		right := func(place uint16) bool { return math.Abs(float64(atPlace(place))-exact) <= s.Bound[i] }
		b.low[i], b.high[i] = between(right, float32(exact-s.Bound[i]), float32(exact+s.Bound[i]))
	}
	return b
}

func between(right func(place uint16) bool, low, high float32) (first, last uint16) {
	first, last = placeOf(BF16(low))-1, placeOf(BF16(high))+1
	for first <= last && !right(first) {
		first++
	}
	for first <= last && !right(last) {
		last--
	}
	return first, last
}

// placeOf returns the position of a BF16 number among all BF16 numbers in ascending order.
func placeOf(bits uint16) uint16 {
	if bits>>15 != 0 {
		return ^bits
	}
	return bits | 1<<15
}

func atPlace(place uint16) float32 {
	if place>>15 != 0 {
		return BF16ToFloat(place &^ (1 << 15))
	}
	return BF16ToFloat(^place)
}
