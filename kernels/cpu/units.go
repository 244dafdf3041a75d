package cpu

import (
	"iter"
	"slices"
	"sync/atomic"
)

type span struct{ start, count int }

// claim gives a worker units of work until none is left: a tile of rows, and
// one chunk of their columns. next is the unit that the rank's workers claim
// next; width and step are those of the columns, in whatever the caller counts.
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

// claimRows is claim for units that take whole rows.
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

// segments goes through rows that lie in segments, with the segment of each
// and the row's place in it. starts[i] is the first row of segment i; the last
// entry is the number of rows.
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
