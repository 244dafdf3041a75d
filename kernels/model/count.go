package model

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Shape is the input of Count.
type Shape struct {
	Ranks   int
	PerHost int // divides Ranks
	Experts int // routed
	TopK    int
	Tokens  int // of each rank
}

const MaxRanks = 2048

// Transport says how copies of a token are sent.
type Transport string

const (
	Select  Transport = "select" // to each selected expert
	PerRank Transport = "rank"   // to each rank
	PerHost Transport = "host"   // one copy to each host, which a rank there forwards
)

func Transports() []Transport { return []Transport{Select, PerRank, PerHost} }

// Index returns the index in Transports, or -1.
func (t Transport) Index() int { return slices.Index(Transports(), t) }

// Choices returns the transports that an op may use. A combine of full precision may not round partial sums, so each
// expert's row is sent alone.
func Choices(op ep.Op, precision ep.Precision) []Transport {
	if op == ep.Combine && precision == ep.Full {
		return []Transport{Select}
	}
	return []Transport{PerRank, PerHost}
}

// Traffic counts messages of one dispatch on the busiest rank. It counts the sent messages or the received messages,
// whichever number is larger.
type Traffic struct {
	Host    float64 // inside a host
	Network float64 // between hosts
	Rows    float64 // of the fullest rank
	Places  float64 // mean destinations of a token
	Drawn   int     // tokens drawn for each rank
}

// maxDrawn is the largest number of selections that Count draws.
const maxDrawn = 1 << 24

// Validate checks every field. Its error names the field and the bound.
func (s Shape) Validate() error {
	for _, f := range []struct {
		name     string
		v        int
		min, max int
	}{
		{"ranks", s.Ranks, 1, MaxRanks}, {"ranks a host", s.PerHost, 1, s.Ranks}, {"experts", s.Experts, 1, ep.MaxExperts},
		{"topk", s.TopK, 1, min(ep.MaxTopK, s.Experts)}, {"tokens", s.Tokens, 0, ep.MaxTokens},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s: %d is outside %d to %d", f.name, f.v, f.min, f.max)
		}
	}
	if s.Ranks%s.PerHost != 0 {
		return fmt.Errorf("ranks: %d is not a multiple of %d, the ranks of one host", s.Ranks, s.PerHost)
	}
	return nil
}

// Count draws a routing and counts its messages. It returns one Traffic for each of Transports.
func Count(s Shape, d workloads.Distribution, seed uint64) ([]Traffic, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	w, err := s.draw(d, seed)
	if err != nil {
		return nil, err
	}
	return countDrawn(s, w), nil
}

// Counted counts the messages of a drawn workload.
func Counted(w *workloads.Workload) []Traffic {
	p := w.Problem
	return countDrawn(Shape{Ranks: p.Ranks, PerHost: p.Ranks / p.Nodes, Experts: p.Experts, TopK: p.TopK, Tokens: p.Tokens}, w)
}

func (s Shape) draw(d workloads.Distribution, seed uint64) (*workloads.Workload, error) {
	ranks := gcd(s.Experts, s.Ranks)
	each := s.Ranks / ranks
	tokens := min(s.Tokens, max(1, maxDrawn/(s.Ranks*s.TopK)), ep.MaxTokens/each) * each
	return workloads.New(d, ep.Problem{
		Op: ep.Dispatch, Mode: ep.Graph, Ranks: ranks, Nodes: 1, Hidden: 128, Experts: s.Experts, TopK: s.TopK,
		Tokens: tokens, MaxTokens: max(tokens, 1), Dispatch: ep.BF16, Combine: ep.BF16,
	}, seed)
}

func countDrawn(s Shape, w *workloads.Workload) []Traffic {
	drawn := w.Problem.Tokens * w.Problem.Ranks / s.Ranks
	scale := 1.0
	if drawn > 0 {
		scale = float64(s.Tokens) / float64(drawn)
	}
	place := newPlacement(s.Experts, s.Ranks)
	tallies := make([]tally, len(Transports()))
	for i, t := range Transports() {
		tallies[i] = newTally(s, t)
	}
	var to []int
	eachToken(s, w, func(source, token int, experts []int32) {
		if to = place.ranks(to[:0], token, experts); len(to) == 0 {
			return
		}
		for i := range tallies {
			tallies[i].token(source, to)
		}
	})
	out := make([]Traffic, len(tallies))
	for i := range tallies {
		out[i] = tallies[i].traffic(scale)
		out[i].Drawn = drawn
	}
	return out
}

// eachToken calls `visit` for every token. A rank of w can stand for several ranks of s.
func eachToken(s Shape, w *workloads.Workload, visit func(source, token int, experts []int32)) {
	each, k := s.Ranks/w.Problem.Ranks, w.Problem.TopK
	token := 0
	for i, r := range w.Ranks {
		for t := range r.Tokens {
			visit(i*each+t*each/r.Tokens, token, r.Experts[t*k:(t+1)*k])
			token++
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

type placement struct {
	experts, places int
	local           int
}

func newPlacement(experts, ranks int) placement {
	local := (experts + ranks - 1) / ranks
	return placement{experts, local * ranks, local}
}

func (p placement) ranks(to []int, token int, experts []int32) []int {
	for _, e := range experts {
		if e < 0 {
			continue
		}
		copies := (p.places-int(e)-1)/p.experts + 1
		to = append(to, (int(e)+token%copies*p.experts)/p.local)
	}
	return to
}
