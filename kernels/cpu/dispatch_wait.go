package cpu

import (
	"encoding/binary"

	"github.com/epbench/epbench/kernels/dtype"
)

func (w *worker) dispatchWait(l launch, set int) bool {
	copyRows := (*worker).place
	if l.dedup {
		copyRows = (*worker).expand
	}
	return w.wait(l, set, "dispatch_wait", (*worker).pollDispatch, copyRows)
}

func (w *worker) pollDispatch(l launch, set int) bool {
	s, r := &w.s.shape, w.r
	in := &r.inbox[set]
	for i := w.id; i < len(in.counts); i += l.pollers() {
		if w.job.fault == earlyRead {
			r.arrivals.counts[i] = int64(w.s.arrivalsOf(r)[i])
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
		if s.byRank {
			r.indexByRank(s)
		} else {
			r.index(s, l.dedup)
		}
		w.announce()
	}
	return true
}

// index computes the first row of each group, and of each source in a group.
func (r *rank) index(s *shape, dedup bool) {
	row, block, pad := 0, 0, dtype.RowPad(s.Problem)
	for g := range s.groups {
		if s.room > 0 {
			row = g * s.room
		}
		start := row
		r.ids[g], r.offsets[g], r.blocks[g] = int32(g), uint32(row), uint32(block-row/dtype.ScaleBlockRows)
		e := g - (s.groups - s.local)
		if e < 0 {
			row += r.shared.count
		}
		for source := 0; e >= 0 && source < s.sources; source++ {
			pair := e*s.sources + source
			r.pairRow[pair] = row
			r.rowsTo[pair+1] = r.rowsTo[pair] + int(r.arrivals.counts[pair])
			if r.ranges != nil {
				r.ranges[pair] = uint64(row-start)<<32 | uint64(r.arrivals.counts[pair])
			}
			row += int(r.arrivals.counts[pair])
		}
		if s.room > 0 {
			r.offsets[g] = uint32(row - start)
		}
		r.clearScaleTail(s, block, row-start, e < 0)
		block += (row - start + dtype.ScaleBlockRows - 1) / dtype.ScaleBlockRows
		row = (row + pad - 1) / pad * pad
	}
	if r.offsets[s.groups] = uint32(row); s.room > 0 {
		r.offsets[s.groups] = uint32(r.rowsTo[len(r.rowsTo)-1])
	}
	for i := 0; dedup && i < s.sources; i++ {
		r.messages[i+1] += r.messages[i]
	}
}

func (w *worker) place(l launch, set int) {
	for rows, bytes := range l.claim(&w.r.move, w.r.rowsTo[len(w.r.rowsTo)-1], w.s.encoding.Payload, l.chunk) {
		for pair, i := range segments(w.r.rowsTo, rows) {
			w.placeRow(l, set, pair, i, bytes)
		}
	}
}

func (w *worker) placeRow(l launch, set, pair, i int, bytes span) {
	s, r := &w.s.shape, w.r
	slot := r.inbox[set].slots[(pair*s.MaxTokens+i)*s.header.Bytes:][:s.header.Bytes]
	row := r.pairRow[pair] + i
	l.write(r.out[row*s.encoding.Payload+bytes.start:][:bytes.count], slot[bytes.start:])
	if bytes.start > 0 {
		return
	}
	expert := pair / s.sources
	r.placeScales(s, s.groups-s.local+expert, row, slot[s.encoding.ScaleOffset():])
	r.srcInfo[2*row] = int32(binary.LittleEndian.Uint32(slot[s.header.SrcInfo:]))
	r.srcInfo[2*row+1] = int32(position(slot[s.header.IDs:], r.id*s.local+expert, s.TopK))
}

// position returns an expert's index among ids, or -1.
func position(ids []byte, expert, topK int) int {
	for k := range topK {
		if int(binary.LittleEndian.Uint16(ids[2*k:])) == expert {
			return k
		}
	}
	return -1
}
