package cpu

// combineAsync sends the experts' rows back to the tokens' ranks. `set` selects the receive buffers.
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

// back returns the rank whose tokens are at index `source` in w's buffers. It also returns `me`, the index of w's rank
// in that rank's buffers.
func (w *worker) back(source int) (peer *rank, me int) {
	if w.s.SkipA2A {
		return w.r, 0
	}
	return w.s.ranks[source], w.r.id
}

func (w *worker) returnRows(l launch, set int) {
	for rows, bytes := range l.claim(&w.r.send, w.r.rowsTo[len(w.r.rowsTo)-1], w.s.rowBytes, l.chunk) {
		for pair, i := range segments(w.r.rowsTo, rows) {
			if w.r.rowsTo[pair]+i > 0 || !w.hasFault(dropToken) {
				w.returnRow(l, set, pair, w.r.pairRow[pair]+i, bytes)
			}
		}
	}
}

func (w *worker) returnRow(l launch, set, pair, row int, bytes span) {
	s, r := &w.s.shape, w.r
	token, k := int(r.srcInfo[2*row]), int(r.srcInfo[2*row+1])
	// A wrong dispatch may have written any number to srcInfo.
	if token < 0 || token >= s.MaxTokens || k < 0 || k >= s.TopK {
		return
	}
	peer, _ := w.back(pair % s.sources)
	slot := peer.returns[set].rows[(token*s.TopK+k)*s.rowBytes+bytes.start:][:bytes.count]
	l.write(slot, octets(r.y)[row*s.rowBytes+bytes.start:][:bytes.count])
}

func (w *worker) signalCombine(l launch, set int) {
	s, r := &w.s.shape, w.r
	for i := range s.sources {
		source := (r.id + 1 + i) % s.sources
		peer, me := w.back(source)
		if l.dedup && w.hasFault(noSignal) {
			continue
		}
		if l.dedup {
			n := r.messages[source+1] - r.messages[source]
			peer.returns[set].arrived[me].Store(uint64(n))
			continue
		}
		for e := range s.local {
			if e == s.local-1 && w.hasFault(noSignal) {
				continue
			}
			n := r.arrivals.counts[e*s.sources+source]
			peer.returns[set].counts[e*s.sources+me].Store(uint64(n))
		}
	}
	w.job.notifier.notify()
}
