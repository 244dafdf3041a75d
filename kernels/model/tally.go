package model

import "slices"

type flow struct{ out, in []int64 }

func newFlow(ranks int) flow { return flow{make([]int64, ranks), make([]int64, ranks)} }

func (f flow) message(from, to int) {
	f.out[from]++
	f.in[to]++
}

func (f flow) busiest() float64 { return float64(max(slices.Max(f.out), slices.Max(f.in))) }

type tally struct {
	perHost   int
	transport Transport
	host, net flow
	rows      []int64
	seen      []int // [ranks + hosts] number of the last token that went there
	tokens    int
	places    int
}

func newTally(s Shape, t Transport) tally {
	return tally{perHost: s.PerHost, transport: t, host: newFlow(s.Ranks), net: newFlow(s.Ranks),
		rows: make([]int64, s.Ranks), seen: make([]int, s.Ranks+s.Ranks/s.PerHost)}
}

// token counts the messages of one token. `to` holds the rank of each selected expert.
func (t *tally) token(source int, to []int) {
	t.tokens++
	for _, rank := range to {
		t.rows[rank]++
		if t.transport != Select && !t.first(rank) {
			continue
		}
		host := rank / t.perHost
		fresh := t.transport != PerHost || t.first(len(t.rows)+host)
		if fresh {
			t.places++
		}
		t.send(source, rank, fresh)
	}
}

// first reports whether the current token goes to `place` for the first time.
func (t *tally) first(place int) bool {
	again := t.seen[place] == t.tokens
	t.seen[place] = t.tokens
	return !again
}

// send counts one copy of a token. `fresh` is true for the token's first copy to a host.
func (t *tally) send(source, rank int, fresh bool) {
	here, there := source/t.perHost, rank/t.perHost
	switch {
	case rank == source:
	case here == there:
		t.host.message(source, rank)
	case t.transport != PerHost:
		t.net.message(source, rank)
	default:
		gate := there*t.perHost + source%t.perHost
		if fresh {
			t.net.message(source, gate)
		}
		if gate != rank {
			t.host.message(gate, rank)
		}
	}
}

func (t *tally) traffic(scale float64) Traffic {
	return Traffic{Host: scale * t.host.busiest(), Network: scale * t.net.busiest(), Rows: scale * float64(slices.Max(t.rows)),
		Places: float64(t.places) / float64(max(t.tokens, 1))}
}
