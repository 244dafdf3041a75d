package cpu

import (
	"iter"
	"slices"
	"sync/atomic"
)

// span is a range of rows, columns or bytes.
type span struct{ start, count int }

// claim yields units of work that no other worker gets. A unit is some rows and `step` of the `width` columns. All
// workers of a rank pass the same `next`.
func (l launch) claim(next *atomic.Int64, rows, width, step int) iter.Seq2[span, span] {
	chunks := max((width+step-1)/step, 1)
	units := (rows + l.tile - 1) / l.tile * chunks
	return func(yield func(rows, columns span) bool) {
		for u := int(next.Add(1)) - 1; u < units; u = int(next.Add(1)) - 1 {
			lo, off := u/chunks*l.tile, u%chunks*step
			if !yield(span{lo, min(l.tile, rows-lo)}, span{off, min(step, width-off)}) {
				return
			}
		}
	}
}

func (l launch) claimRows(next *atomic.Int64, rows int) iter.Seq[int] {
	return func(yield func(row int) bool) {
		for tile := range l.claim(next, rows, 1, 1) {
			for row := tile.start; row < tile.start+tile.count; row++ {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// segments yields each row's segment, and the row's index in the segment. Segment i begins at row starts[i].
func segments(starts []int, rows span) iter.Seq2[int, int] {
	return func(yield func(segment, place int) bool) {
		segment, _ := slices.BinarySearch(starts, rows.start+1)
		segment--
		for row := rows.start; row < rows.start+rows.count; row++ {
			for row >= starts[segment+1] {
				segment++
			}
			if !yield(segment, row-starts[segment]) {
				return
			}
		}
	}
}
