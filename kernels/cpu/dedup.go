package cpu

import (
	"encoding/binary"
	"math"
)

func (w *worker) expand(l launch, set int) {
	for messages := range l.claim(&w.r.move, w.r.messages[w.s.sources], 1, 1) {
		for source, i := range segments(w.r.messages, messages) {
			if w.s.byRank {
				w.placeMessage(l, set, source, i)
			} else {
				w.expandMessage(l, set, source, i)
			}
		}
	}
}

func (w *worker) expandMessage(l launch, set, source, i int) {
	s, r := &w.s.shape, w.r
	index := source*s.MaxTokens + i
	message := r.inbox[set].messages[index*s.header.Dedup:][:s.header.Dedup]
	token := int32(binary.LittleEndian.Uint32(message[s.header.SrcInfo:]))
	r.msgToken[index] = token
	rows := r.msgRow[index*s.TopK : (index+1)*s.TopK]
	for k := range rows {
		rows[k] = -1
		e := int(binary.LittleEndian.Uint16(message[s.header.IDs+2*k:])) - r.id*s.local
		if e < 0 || e >= s.local {
			continue
		}
		pair := e*s.sources + source
		row := r.pairRow[pair] + int(r.cursor[pair].Add(1)) - 1
		rows[k] = int32(row)
		r.msgWeight[index*s.TopK+k] = math.Float32frombits(binary.LittleEndian.Uint32(message[s.header.Weights+4*k:]))
		r.placeScales(s, s.groups-s.local+e, row, message[s.encoding.ScaleOffset():])
		r.srcInfo[2*row], r.srcInfo[2*row+1] = token, int32(k)
	}
	for off := 0; off < s.encoding.Payload; off += l.chunk {
		end := min(off+l.chunk, s.encoding.Payload)
		for _, row := range rows {
			if row >= 0 {
				l.write(r.out[int(row)*s.encoding.Payload+off:][:end-off], message[off:end])
			}
		}
	}
}

// returnPartials sums, for each received message, the weighted rows of local experts. The sender receives the sum.
func (w *worker) returnPartials(l launch, set int) {
	for messages, columns := range l.claim(&w.r.send, w.r.messages[w.s.sources], w.s.Hidden, l.chunk/2) {
		for source, i := range segments(w.r.messages, messages) {
			w.returnPartial(set, source, i, columns)
		}
	}
}

func (w *worker) returnPartial(set, source, i int, columns span) {
	s, r := &w.s.shape, w.r
	index := source*s.MaxTokens + i
	token := int(r.msgToken[index])
	if token < 0 || token >= s.MaxTokens || i == 0 && source == 0 && w.hasFault(dropToken) {
		return
	}
	w.rows, w.weights = w.rows[:0], w.weights[:0]
	if s.byRank {
		w.addRow(r.y[(r.fromRow[source]+i)*s.Hidden:], columns, 1)
	}
	for k := index * s.TopK; k < (index+1)*s.TopK; k++ {
		if row := r.msgRow[k]; row >= 0 && !s.byRank {
			w.addRow(r.y[int(row)*s.Hidden:], columns, r.msgWeight[k])
		}
	}
	peer, me := w.back(source)
	at := (token*s.sources + me) * s.Hidden
	w.sum(halves(peer.returns[set].partials)[at:], columns)
}
