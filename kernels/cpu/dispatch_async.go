package cpu

import (
	"encoding/binary"
	"math"

	"github.com/epbench/epbench/kernels/cpu/vec"
)

// dispatchAsync writes this rank's tokens into the slots of all ranks. `set` selects the receive buffers.
func (w *worker) dispatchAsync(l launch, set int) bool {
	w.sentBefore = tokenCounter{}
	for t := range l.claimRows(&w.r.send, w.r.tokens) {
		w.sendToken(l, set, t)
	}
	if w.r.sent.Add(1) == int64(l.blocks) {
		w.signalDispatch(l, set)
	}
	return true
}

func (w *worker) sendToken(l launch, set, token int) {
	payload, tail := w.compose(token)
	if l.dedup {
		w.addressRanks(set, token)
	} else {
		tail = tail[:w.s.header.Bytes-w.s.encoding.TokenBytes()]
		w.addressExperts(set, token)
	}
	if token == 0 && w.hasFault(dropToken) {
		return
	}
	for off := 0; off < len(payload); off += l.chunk {
		end := min(off+l.chunk, len(payload))
		for _, slot := range w.targets {
			l.write(slot[off:end], payload[off:end])
		}
	}
	for _, slot := range w.targets {
		copy(slot[w.s.encoding.TokenBytes():], tail)
	}
	if i := token - w.r.shared.start; w.s.SharedExpert && i >= 0 && i < w.r.shared.count {
		w.placeShared(l, i, token, payload)
	}
}

func (w *worker) compose(token int) (payload, tail []byte) {
	s, r := &w.s.shape, w.r
	from := token
	if r.tokens > 1 && token < 2 && w.hasFault(swapRows) {
		from = 1 - token
	}
	x := r.x[from*s.Hidden : (from+1)*s.Hidden]
	payload, tail = w.message[:s.encoding.TokenBytes()], w.message[s.encoding.TokenBytes():]
	if s.encoding.Group == 0 {
		payload = octets(x)
	} else {
		quantize(s.encoding, x, payload[:s.encoding.Payload], payload[s.encoding.ScaleOffset():])
	}
	binary.LittleEndian.PutUint32(tail, uint32(token))
	ids := tail[s.header.IDs-s.header.SrcInfo:]
	gates := tail[s.header.Weights-s.header.SrcInfo:]
	for k := range s.TopK {
		e, gate := r.experts[token*s.TopK+k], r.gates[token*s.TopK+k]
		binary.LittleEndian.PutUint16(ids[2*k:], uint16(e)) // -1 becomes dtype.NoExpert
		binary.LittleEndian.PutUint32(gates[4*k:], math.Float32bits(gate))
	}
	return payload, tail
}

func (w *worker) addressExperts(set, token int) {
	s, r := &w.s.shape, w.r
	w.targets = w.targets[:0]
	for _, e := range r.experts[token*s.TopK : (token+1)*s.TopK] {
		peer, source, ok := w.route(int(e))
		if !ok {
			continue
		}
		slot := int(r.expertSlot[e].Add(1)) - 1
		at := ((int(e)%s.local*s.sources+source)*s.MaxTokens + slot) * s.header.Bytes
		w.targets = append(w.targets, peer.inbox[set].slots[at:at+s.header.Bytes])
	}
}

func (w *worker) addressRanks(set, token int) {
	s, r := &w.s.shape, w.r
	w.targets = w.targets[:0]
	var seen [MaxRanks]bool
	if s.byRank {
		w.sentBefore.advance(s, r, token)
	}
	for _, e := range r.experts[token*s.TopK : (token+1)*s.TopK] {
		peer, source, ok := w.route(int(e))
		if !ok {
			continue
		}
		r.expertSlot[e].Add(1)
		if seen[peer.id] {
			continue
		}
		seen[peer.id] = true
		slot := int(r.rankSlot[peer.id].Add(1)) - 1
		if s.byRank {
			slot = w.sentBefore.before[peer.id]
		}
		at := (source*s.MaxTokens + slot) * s.header.Dedup
		w.targets = append(w.targets, peer.inbox[set].messages[at:at+s.header.Dedup])
	}
}

// route returns an expert's rank, and the index of w's rank in that rank's buffers. `ok` is false for a masked
// selection, and with skip_a2a for experts of other ranks.
func (w *worker) route(expert int) (peer *rank, source int, ok bool) {
	if expert < 0 {
		return nil, 0, false
	}
	owner := expert / w.s.local
	if w.s.SkipA2A {
		return w.r, 0, owner == w.r.id
	}
	return w.s.ranks[owner], w.r.id, true
}

// signalDispatch stores all counts, also those that are zero.
func (w *worker) signalDispatch(l launch, set int) {
	s, r := &w.s.shape, w.r
	for i := range s.sources {
		dst, source := r, 0
		if !s.SkipA2A {
			dst, source = w.s.ranks[(r.id+1+i)%s.Ranks], r.id
		}
		for e := range s.local {
			expert := dst.id*s.local + e
			if expert == s.Experts-1 && w.hasFault(noSignal) {
				continue
			}
			dst.inbox[set].counts[e*s.sources+source].Store(uint64(r.expertSlot[expert].Load()))
		}
		if l.dedup {
			dst.inbox[set].arrived[source].Store(uint64(r.rankSlot[dst.id].Load()))
		}
	}
	w.job.notifier.notify()
}

func (l launch) write(dst, src []byte) {
	if l.stream {
		vec.Stream(dst, src)
		return
	}
	copy(dst, src)
}
