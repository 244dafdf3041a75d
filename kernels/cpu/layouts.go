package cpu

import (
	"encoding/binary"
	"math"

	"github.com/epbench/epbench/workloads"
)

// tokenCounter counts, for each rank, how many of the tokens before a given token go to that rank. The given tokens must
// ascend from call to call.
type tokenCounter struct {
	next   int // first uncounted token
	before [MaxRanks]int
}

func (w *tokenCounter) advance(s *shape, r *rank, token int) {
	for ; w.next < token; w.next++ {
		var seen [MaxRanks]bool
		for _, e := range r.experts[w.next*s.TopK : (w.next+1)*s.TopK] {
			if e >= 0 && !seen[int(e)/s.local] {
				seen[int(e)/s.local] = true
				w.before[int(e)/s.local]++
			}
		}
	}
}

// indexByRank computes where the rows from each source begin, in the layouts by rank.
func (r *rank) indexByRank(s *shape) {
	all := 0
	for source := range s.sources {
		n := r.messages[source+1]
		r.fromRow[source], r.offsets[source] = all, uint32(all)
		if s.room > 0 {
			r.fromRow[source], r.offsets[source] = source*s.room, uint32(n)
		}
		all += n
		r.messages[source+1] = all
	}
	r.offsets[s.sources] = uint32(all)
}

// placeMessage copies message i from a source to its row of the output, in the layouts by rank.
func (w *worker) placeMessage(l launch, set, source, i int) {
	s, r := &w.s.shape, w.r
	index, row := source*s.MaxTokens+i, r.fromRow[source]+i
	message := r.inbox[set].messages[index*s.header.Dedup:][:s.header.Dedup]
	token := int32(binary.LittleEndian.Uint32(message[s.header.SrcInfo:]))
	r.msgToken[index] = token
	r.srcInfo[2*row], r.srcInfo[2*row+1] = token, int32(source)
	for k := range s.TopK {
		expert, gate := int32(-1), float32(0)
		if e := int(binary.LittleEndian.Uint16(message[s.header.IDs+2*k:])) - r.id*s.local; e >= 0 && e < s.local {
			expert, gate = int32(e), math.Float32frombits(binary.LittleEndian.Uint32(message[s.header.Weights+4*k:]))
		}
		r.localExpert[row*s.TopK+k], r.localWeight[row*s.TopK+k] = expert, gate
	}
	r.placeScales(s, 0, row, message[s.encoding.ScaleOffset():])
	for off := 0; off < s.encoding.Payload; off += l.chunk {
		end := min(off+l.chunk, s.encoding.Payload)
		l.write(r.out[row*s.encoding.Payload+off:][:end-off], message[off:end])
	}
}

// actByRank computes the experts' outputs from rows in the layouts by rank.
func (w *worker) actByRank(l launch, scales []byte) {
	s, r := &w.s.shape, w.r
	outputs := make([][]uint16, s.TopK)
	for k := range outputs {
		outputs[k] = make([]uint16, s.Hidden)
	}
	for messages := range l.claim(&r.move, r.messages[s.sources], 1, 1) {
		for source, i := range segments(r.messages, messages) {
			row := r.fromRow[source] + i
			r.scalesOf(s, 0, row, scales)
			w.rows, w.weights = w.rows[:0], w.weights[:0]
			for k := range s.TopK {
				if e := r.localExpert[row*s.TopK+k]; e >= 0 {
					applyGain(s.encoding, r.out[row*s.encoding.Payload:][:s.encoding.Payload], scales, workloads.ExpertGain(r.id*s.local+int(e)), outputs[k])
					w.addRow(outputs[k], span{0, s.Hidden}, r.localWeight[row*s.TopK+k])
				}
			}
			w.sum(r.y[row*s.Hidden:], span{0, s.Hidden})
		}
	}
}

// actMasked computes the experts' outputs from rows in the layout masked.
func (w *worker) actMasked(l launch, scales []byte) {
	s, r := &w.s.shape, w.r
	for rows := range l.claim(&r.move, r.rowsTo[len(r.rowsTo)-1], 1, 1) {
		for pair, i := range segments(r.rowsTo, rows) {
			row, e := r.pairRow[pair]+i, pair/s.sources
			r.scalesOf(s, e, row, scales)
			applyGain(s.encoding, r.out[row*s.encoding.Payload:][:s.encoding.Payload], scales, workloads.ExpertGain(r.id*s.local+e), r.y[row*s.Hidden:][:s.Hidden])
		}
	}
}
