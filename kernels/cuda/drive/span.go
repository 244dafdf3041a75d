package drive

// closeBytes limits the gap between two pieces that are copied together.
const closeBytes = 32 << 10

// span is a range of bytes in a part of the heap. One copy moves the whole range.
type span struct {
	from, bytes int // offset in the part, and length
	at          int // offset in host memory
}

// spansOf joins pieces of `bytes` bytes into spans, and returns each piece's offset in host memory.
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
