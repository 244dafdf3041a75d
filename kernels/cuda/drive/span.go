package drive

// closeBytes is the longest gap, in bytes, between two pieces that one copy moves together. The gap is
// copied too. A separate copy would cost the host 2 us, and in that time the bus moves more than
// closeBytes.
const closeBytes = 32 << 10

// span is a contiguous range of a part of the heap that one copy moves.
type span struct {
	from, bytes int // offset in the part, and length
	at          int // offset in host memory
}

// spansOf returns the ranges to copy so that all pieces are in host memory, and the offset of each
// piece there. The pieces have `bytes` bytes and begin at `offsets` in the part.
func spansOf(offsets []int, bytes int) (spans []span, places []int) {
	need := 0
	for _, from := range offsets {
		last := len(spans) - 1
		if last < 0 || from < spans[last].from || from > spans[last].from+spans[last].bytes+closeBytes {
			spans = append(spans, span{from, bytes, need})
			last++
		}
		s := &spans[last]
		s.bytes = max(s.bytes, from+bytes-s.from)
		need = s.at + s.bytes
		places = append(places, s.at+from-s.from)
	}
	return spans, places
}
