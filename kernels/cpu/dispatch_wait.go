package cpu

import (
	"encoding/binary"
	"slices"

	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/kernels/internal/drill"
)

// dispatchWait waits for the counts of all sources and lays the rows out.
func (w *worker) dispatchWait(l launch, set int) bool {
	if w.id < l.pollers() && !w.pollDispatch(l, set) {
		return false
	}
	if w.id < l.waitBlocks {
		return true
	}
	if !w.awaitReady("dispatch_wait") {
		return false
	}
	if l.dedup {
		w.expand(l, set)
	} else {
		w.place(l, set)
	}
	return true
}

// pollDispatch takes this worker's share of the counts; whoever finishes last
// turns them into positions.
func (w *worker) pollDispatch(l launch, set int) bool {
	s, r := &w.s.shape, w.r
	in := &r.inbox[set]
	for i := w.id; i < len(in.counts); i += l.pollers() {
		if w.job.fault == drill.EarlyRead {
			r.arrivals.counts[i] = w.s.expected(r.id, i)
			in.counts[i].Store(sentinel)
			continue
		}
		n, ok := w.awaitCount(&in.counts[i], "dispatch_wait", r.id*s.local+i/s.sources, i%s.sources)
		if !ok {
			return false
		}
		r.arrivals.counts[i] = n
	}
	for i := w.id; l.dedup && i < s.sources; i += l.pollers() {
		n, ok := w.awaitCount(&in.arrived[i], "dispatch_wait", -1, i)
		if !ok {
			return false
		}
		r.messages[i+1] = int(n)
	}
	if r.polled.Add(1) == int64(l.pollers()) {
		r.index(s, l.dedup)
		w.announce()
	}
	return true
}

// index turns counts into positions: where each group and each (expert,
// source) segment starts.
func (r *rank) index(s *shape, dedup bool) {
	row, block, pad := 0, 0, formats.RowPad(s.Dispatch)
	for g := range s.groups {
		start := row
		r.ids[g], r.offsets[g], r.blocks[g] = int32(g), uint32(row), uint32(block-row/formats.ScaleBlockRows)
		e := g - (s.groups - s.local)
		if e < 0 {
			row += r.shared.count
		}
		for source := 0; e >= 0 && source < s.sources; source++ {
			pair := e*s.sources + source
			r.pairRow[pair] = row
			r.rowsTo[pair+1] = r.rowsTo[pair] + int(r.arrivals.counts[pair])
			row += int(r.arrivals.counts[pair])
		}
		r.clearScaleTail(s, block, row-start, e < 0)
		block += (row - start + formats.ScaleBlockRows - 1) / formats.ScaleBlockRows
		row = (row + pad - 1) / pad * pad
	}
	r.offsets[s.groups] = uint32(row)
	for i := 0; dedup && i < s.sources; i++ {
		r.messages[i+1] += r.messages[i]
	}
}

// place copies rows out of the expert slots. A unit of work is a tile of
// rows and one chunk of their columns.
func (w *worker) place(l launch, set int) {
	s, r := &w.s.shape, w.r
	chunks := max((s.layout.Payload+l.chunk-1)/l.chunk, 1)
	rows := r.rowsTo[len(r.rowsTo)-1]
	for units := (rows + l.tile - 1) / l.tile * chunks; ; {
		u := int(r.move.Add(1)) - 1
		if u >= units {
			return
		}
		lo := u / chunks * l.tile
		w.placeTile(l, set, span{lo, min(l.tile, rows-lo)}, u%chunks*l.chunk)
	}
}

// placeTile copies columns [off, off+chunk) of some rows; the first chunk
// brings scales and src_info along.
func (w *worker) placeTile(l launch, set int, rows span, off int) {
	s, r := &w.s.shape, w.r
	end := min(off+l.chunk, s.layout.Payload)
	pair, _ := slices.BinarySearch(r.rowsTo, rows.start+1)
	pair--
	for at := rows.start; at < rows.start+rows.count; at++ {
		for at >= r.rowsTo[pair+1] {
			pair++
		}
		i := at - r.rowsTo[pair]
		slot := r.inbox[set].slots[(pair*s.MaxTokens+i)*s.header.Bytes:][:s.header.Bytes]
		row := r.pairRow[pair] + i
		l.write(r.out[row*s.layout.Payload+off:][:end-off], slot[off:end])
		if off > 0 {
			continue
		}
		expert := pair / s.sources
		r.placeScales(s, s.groups-s.local+expert, row, slot[s.layout.ScaleOffset():])
		r.srcInfo[2*row] = int32(binary.LittleEndian.Uint32(slot[s.header.SrcInfo:]))
		r.srcInfo[2*row+1] = int32(position(slot[s.header.IDs:], r.id*s.local+expert, s.TopK))
	}
}

// position finds an expert among the ids of a message, -1 if it is not there.
func position(ids []byte, expert, topK int) int {
	for k := range topK {
		if int(binary.LittleEndian.Uint16(ids[2*k:])) == expert {
			return k
		}
	}
	return -1
}
