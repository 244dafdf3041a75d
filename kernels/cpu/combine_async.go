package cpu

import (
	"slices"

	"github.com/epbench/epbench/kernels/internal/drill"
)

// combineStages is the program of one combine.
func combineStages(l launch) []stage {
	if l.split {
		return []stage{{l, (*worker).combineAsync}, {l, (*worker).combineWait}}
	}
	return []stage{{l, func(w *worker, l launch, set int) bool {
		return w.combineAsync(l, set) && w.combineWait(l, set)
	}}}
}

// combineAsync writes the experts' rows back to where their tokens came from.
func (w *worker) combineAsync(l launch, set int) bool {
	if l.dedup {
		w.returnPartials(l, set)
	} else {
		w.returnRows(l, set)
	}
	if w.r.sent.Add(1) == int64(l.blocks) {
		w.signalCombine(l, set)
	}
	return true
}

// back says who a source is and as which source it knows this rank.
func (w *worker) back(source int) (peer *rank, me int) {
	if w.s.SkipA2A {
		return w.r, 0
	}
	return w.s.ranks[source], w.r.id
}

// returnRows copies every row to slot (token, k) at its rank, by tiles of
// rows and chunks of columns.
func (w *worker) returnRows(l launch, set int) {
	s, r := &w.s.shape, w.r
	chunks := (s.rowBytes + l.chunk - 1) / l.chunk
	rows := r.rowsTo[len(r.rowsTo)-1]
	for units := (rows + l.tile - 1) / l.tile * chunks; ; {
		u := int(r.send.Add(1)) - 1
		if u >= units {
			return
		}
		lo, off := u/chunks*l.tile, u%chunks*l.chunk
		w.returnTile(l, set, span{lo, min(l.tile, rows-lo)}, off)
	}
}

func (w *worker) returnTile(l launch, set int, rows span, off int) {
	s, r := &w.s.shape, w.r
	n := min(l.chunk, s.rowBytes-off)
	pair, _ := slices.BinarySearch(r.rowsTo, rows.start+1)
	pair--
	for at := rows.start; at < rows.start+rows.count; at++ {
		for at >= r.rowsTo[pair+1] {
			pair++
		}
		if at == 0 && w.drilled(drill.DropToken) {
			continue
		}
		row := r.pairRow[pair] + at - r.rowsTo[pair]
		token, k := int(r.srcInfo[2*row]), int(r.srcInfo[2*row+1])
		// src_info is data from elsewhere: never let it choose an address
		// outside the buffer.
		if token < 0 || token >= s.MaxTokens || k < 0 || k >= s.TopK {
			continue
		}
		peer, _ := w.back(pair % s.sources)
		slot := peer.returns[set].rows[(token*s.TopK+k)*s.rowBytes+off:][:n]
		l.write(slot, octets(r.y)[row*s.rowBytes+off:][:n])
	}
}

// signalCombine tells every rank how many rows came back from each expert.
func (w *worker) signalCombine(l launch, set int) {
	s, r := &w.s.shape, w.r
	for i := range s.sources {
		source := (r.id + 1 + i) % s.sources
		peer, me := w.back(source)
		if l.dedup && w.drilled(drill.NoSignal) {
			continue
		}
		if l.dedup {
			n := r.messages[source+1] - r.messages[source]
			peer.returns[set].arrived[me].Store(uint64(n))
			continue
		}
		for e := range s.local {
			if e == s.local-1 && w.drilled(drill.NoSignal) {
				continue
			}
			n := r.arrivals.counts[e*s.sources+source]
			peer.returns[set].counts[e*s.sources+me].Store(uint64(n))
		}
	}
	w.job.bell.ring()
}
