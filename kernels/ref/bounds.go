package ref

import "math"

// sumBounds is a Sum as it is judged: of each element the lowest and the highest BF16 that
// is right. To compute a sum takes 30 times as long as to compare it, and a search compares
// the same ones for each of its configs.
type sumBounds struct {
	low, high []uint16  // [hidden] places of BF16 numbers in their order; low > high where none is right
	exact     []float32 // [hidden] for the size of an error, which is rounded when it is printed
}

func (b sumBounds) bytes() int { return 8 * len(b.exact) }

// finished is the sum of a token behind the epilogue.
func (o *Oracle) finished(rank, token int, c Compare) Sum {
	s := o.CombineRow(rank, token, c.Partial)
	c.Epilogue.apply(s)
	return s
}

// boundsOf returns the bounds of a token's sum. Bounds with an epilogue are computed each
// time: few configs have one.
func (o *Oracle) boundsOf(rank, token int, c Compare) sumBounds {
	compute := func() sumBounds { return o.finished(rank, token, c).bounds(c.Bits) }
	if c.Epilogue != nil {
		return compute()
	}
	return o.sums.get(c.sums()*len(o.w.Ranks)+rank, token, compute)
}

// sumKinds is how many kinds of bounds a sum may have, and sums numbers those of a Compare:
// partial sums that are not rounded change the bits that are wanted, but no bounds.
const sumKinds = 5

func (c Compare) sums() int {
	switch {
	case c.Bits:
		return 2 + int(c.Partial)
	case c.Partial == BF16Partial:
		return 1
	}
	return 0
}

// bounds with bits allow the wanted BF16 alone.
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

// between finds the first and the last place that is right near two numbers. Rounding may
// have moved either by one place.
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

// placeOf is where a BF16 number stands in their order, from minus infinity to plus
// infinity; NaNs stand beyond both.
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
