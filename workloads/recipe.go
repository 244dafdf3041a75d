package workloads

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/epbench/epbench/tune/ep"
)

// maxSelections bounds ids and weights to 2 GiB.
const maxSelections = 1 << 28

// chunkTokens is the number of tokens that share one random stream. If chunkTokens changes, every routing changes.
const chunkTokens = 512

type law func(s drawRequest) (filler, error)

type drawRequest struct {
	ep.Problem
	seed uint64
	size []int // tokens of each rank
}

// filler draws the experts of a chunk. Several goroutines call fill at once.
type filler interface{ fill(r *rng, c chunk) }

// weigher is a filler that also replaces the drawn weights [tokens, k].
type weigher interface{ weigh(c chunk, w []float32) }

type chunk struct {
	rank  int
	first int // index of the first token on its rank
	total int // index of the first token over all ranks
	k     int
	ids   []int32 // [tokens, k], output
}

type eachToken func(r *rng, rank int, dst []int32)

func (f eachToken) fill(r *rng, c chunk) {
	for i := 0; i < len(c.ids); i += c.k {
		f(r, c.rank, c.ids[i:i+c.k])
	}
}

type recipe struct {
	base    string   // distribution
	mods    []string // modifiers, in canonical order
	law     law
	loadLaw *loadLaw
	gate    gate
	sizes   func(most, ranks int, seed uint64) ([]int, error) // draws tokens per rank; nil: equal
	edits   []edit
	spare   int // experts that are replicas
	step    uint64
}

type edit func(b *batch)

// batch is an unfinished routing. It has one rank if all ranks have the same tokens (SkipA2A).
type batch struct {
	drawRequest
	step  uint64
	ranks []Routing
}

func (r *recipe) orUniform() {
	if r.law == nil {
		r.law = uniform
	}
}

func (r *recipe) Spec() string {
	return strings.Join(append([]string{r.base}, r.mods...), "+")
}

func (r *recipe) draw(w *Workload) error {
	b, err := r.batch(w.Problem, w.Seed)
	if err != nil {
		return err
	}
	f, err := r.law(b.drawRequest)
	if err != nil {
		return err
	}
	w.Ranks = r.route(b, f)
	w.Class = r.class(w, b, f)
	return nil
}

func (r *recipe) route(b *batch, f filler) []Routing {
	b.ranks = nil
	for _, n := range b.size {
		b.ranks = append(b.ranks, Routing{Tokens: n, Experts: make([]int32, n*b.TopK), Weights: make([]float32, n*b.TopK)})
	}
	r.fill(b, f)
	for _, e := range r.edits {
		e(b)
	}
	for len(b.ranks) < b.Ranks { // SkipA2A
		b.ranks = append(b.ranks, b.ranks[0])
	}
	return b.ranks
}

func (r *recipe) batch(p ep.Problem, seed uint64) (*batch, error) {
	ranks := p.Ranks
	if p.SkipA2A {
		ranks = 1 // all ranks have the same tokens
	}
	if p.Experts-r.spare < p.TopK {
		return nil, fmt.Errorf("eplb: %d of the problem's %d experts are replicas, and a token cannot select %d of the other %d; --experts counts replicas too, so use at least --experts %d", r.spare, p.Experts, p.TopK, p.Experts-r.spare, r.spare+p.TopK)
	}
	if n := ranks * p.Tokens * p.TopK; n > maxSelections {
		return nil, fmt.Errorf("tokens: %d ranks with %d tokens of top-%d make %d selections, the bound is %d; use fewer tokens",
			ranks, p.Tokens, p.TopK, n, maxSelections)
	}
	size := slices.Repeat([]int{p.Tokens}, ranks)
	if r.sizes != nil {
		var err error
		if size, err = r.sizes(p.Tokens, ranks, seed); err != nil {
			return nil, err
		}
	}
	p.Experts -= r.spare
	return &batch{drawRequest: drawRequest{Problem: p, seed: seed, size: size}, step: r.step}, nil
}

// fill draws ids and weights. Each chunk has its own random streams, so that the number of threads
// does not change the result.
func (r *recipe) fill(b *batch, f filler) {
	var chunks []chunk
	total := 0
	for rank, n := range b.size {
		for first := 0; first < n; first += chunkTokens {
			end := min(first+chunkTokens, n)
			ids := b.ranks[rank].Experts[first*b.TopK : end*b.TopK]
			chunks = append(chunks, chunk{rank: rank, first: first, total: total + first, k: b.TopK, ids: ids})
		}
		total += n
	}
	parallel(len(chunks), func(i int) {
		c := chunks[i]
		key := uint64(c.rank)<<32 | uint64(c.first)
		f.fill(newRNG(b.seed, streamIDs, r.step, key), c)
		w := b.ranks[c.rank].Weights[c.first*c.k:][:len(c.ids)]
		r.gate.fill(newRNG(b.seed, streamWeights, r.step, key), c.k, w)
		if f, ok := f.(weigher); ok {
			f.weigh(c, w)
		}
	})
}

func parallel(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	_ = g.Wait()
}
