package cpu

import "github.com/epbench/epbench/kernels/cpu/vec"

func (w *worker) combineWait(l launch, set int) bool {
	return w.wait(l, set, "combine_wait", (*worker).pollCombine, (*worker).reduce)
}

func (w *worker) pollCombine(l launch, set int) bool {
	s, r := &w.s.shape, w.r
	words := r.returns[set].counts
	if l.dedup {
		words = r.returns[set].arrived
	}
	for i := w.id; i < len(words); i += l.pollers() {
		if w.job.fault == earlyRead {
			words[i].Store(sentinel)
			continue
		}
		expert, source := -1, i%s.sources
		if !l.dedup {
			expert = source*s.local + i/s.sources
		}
		if _, ok := w.awaitCount(&words[i], "combine_wait", expert, source); !ok {
			return false
		}
	}
	if r.polled.Add(1) == int64(l.pollers()) {
		w.announce()
	}
	return true
}

func (w *worker) reduce(l launch, set int) {
	for tokens, columns := range l.claim(&w.r.move, w.r.tokens, w.s.Hidden, l.chunk/2) {
		for t := tokens.start; t < tokens.start+tokens.count; t++ {
			w.reduceToken(l, set, t, columns)
		}
	}
}

func (w *worker) reduceToken(l launch, set, token int, columns span) {
	s, r := &w.s.shape, w.r
	w.rows, w.weights = w.rows[:0], w.weights[:0]
	if l.dedup {
		w.gatherPartials(set, token, columns)
	} else {
		w.gatherRows(set, token, columns)
	}
	row := token
	if r.tokens > 1 && token < 2 && w.hasFault(swapRows) {
		row = 1 - token
	}
	dst := r.combined[row*s.Hidden:]
	w.sum(dst, columns)
	if i := token - r.shared.start; s.SharedExpert && i >= 0 && i < r.shared.count {
		end := columns.start + columns.count
		vec.Add(dst[columns.start:end], r.y[i*s.Hidden:][columns.start:end])
	}
}

// gatherRows collects a token's rows in top-k order.
func (w *worker) gatherRows(set, token int, columns span) {
	s, r := &w.s.shape, w.r
	rows := halves(r.returns[set].rows)
	for k := token * s.TopK; k < (token+1)*s.TopK; k++ {
		if _, _, ok := w.route(int(r.experts[k])); ok {
			w.addRow(rows[k*s.Hidden:], columns, r.gates[k])
		}
	}
}

// gatherPartials collects a token's partial sums in rank order.
func (w *worker) gatherPartials(set, token int, columns span) {
	s, r := &w.s.shape, w.r
	var used [MaxRanks]bool
	for _, e := range r.experts[token*s.TopK : (token+1)*s.TopK] {
		if peer, _, ok := w.route(int(e)); ok {
			used[peer.id] = true
		}
	}
	partials := halves(r.returns[set].partials)
	for source := range s.sources {
		peer, _ := w.back(source)
		if used[peer.id] {
			w.addRow(partials[(token*s.sources+source)*s.Hidden:], columns, 1)
		}
	}
}

func (w *worker) addRow(row []uint16, columns span, weight float32) {
	w.rows = append(w.rows, row[columns.start:columns.start+columns.count])
	w.weights = append(w.weights, weight)
}

func (w *worker) sum(dst []uint16, columns span) {
	vec.Sum(dst[columns.start:columns.start+columns.count], w.rows, w.weights)
}
