// Package reportstest makes synthetic run directories for tests: laws of
// scaling and noise, no measurement. What it writes says so in its machine
// name and its warnings.
package reportstest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Spec says how large a synthetic run is and what it is like.
type Spec struct {
	Seed     uint64
	Ops      []ep.Op
	Tokens   []int
	Routings []string
	SMs      []int
	Threads  []int
	Chunks   []int                            // a third parameter, to reach a number of trials
	Rounds   int                              // of every candidate in screening
	Confirm  int                              // of the finalists, 0: no confirmation
	Noise    float64                          // standard deviation of the logarithm of a round
	Slow     func(ep.Problem, string) float64 // factor on every time of a case; nil: 1
	Failures bool                             // some candidates fail
	Zero     bool                             // the clock is so coarse that the fewest SMs read 0
}

// Small is a run of a few hundred trials with everything in it.
func Small() Spec {
	return Spec{
		Seed: 1, Ops: []ep.Op{ep.Dispatch, ep.Combine}, Tokens: []int{1, 8, 64, 512},
		Routings: []string{"uniform", "zipf:1.0"}, SMs: []int{4, 8, 16, 32, 64, 132}, Threads: []int{128, 256, 512, 1024},
		Rounds: 3, Confirm: 30, Noise: 0.02, Failures: true,
	}
}

// Ties is a run without noise: tokens of 0, configurations that tie exactly,
// and times of 0.
func Ties() Spec {
	return Spec{
		Seed: 1, Ops: []ep.Op{ep.Dispatch}, Tokens: []int{0, 1, 64}, Routings: []string{"uniform", "zipf:1.0"},
		SMs: []int{4, 8, 16}, Threads: []int{256, 512}, Chunks: []int{128, 256}, Rounds: 3, Confirm: 12, Zero: true,
	}
}

// Forty is a run of forty cases with nothing but confirmed choices, for
// comparisons.
func Forty(seed uint64, rounds int, noise float64) Spec {
	s := Spec{Seed: seed, Ops: []ep.Op{ep.Dispatch, ep.Combine}, Tokens: []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
		Routings: []string{"uniform", "zipf:1.0"}, SMs: []int{32}, Threads: []int{256}, Rounds: 1, Confirm: rounds, Noise: noise}
	return s
}

// Load sorts a run as reports.Load does.
func (s Spec) Load(name string) *reports.Loaded {
	run, results := s.Make()
	return &reports.Loaded{Path: name, Run: run, Results: results, Cases: reports.Cases(run, results)}
}

// Save writes the run into a new directory.
func (s Spec) Save(dir string) error {
	run, results := s.Make()
	d, err := record.CreateDir(dir, run)
	if err != nil {
		return err
	}
	for from := 0; from < len(results); from += 1000 {
		if err := d.Append(results[from:min(from+1000, len(results))], 1); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	return d.Close()
}

// Sized is a run of about n trials.
func Sized(n int) Spec {
	s := Small()
	s.Confirm = 10
	perChunk := len(s.Ops) * len(s.Tokens) * len(s.Routings) * len(s.SMs) * len(s.Threads)
	for c := range max(1, n/perChunk) {
		s.Chunks = append(s.Chunks, 64*(c+1))
	}
	return s
}

const ranks = 8

// Make draws the run.
func (s Spec) Make() (*record.Run, []record.Result) {
	g := &maker{Spec: s, rng: rand.New(rand.NewPCG(s.Seed, 7))}
	if len(g.Chunks) == 0 {
		g.Chunks = []int{0}
	}
	g.run = &record.Run{
		Schema: record.Schema, Tool: "synthetic", Command: []string{"synthetic"}, Started: epoch, Finished: epoch.Add(time.Minute),
		Machine: ep.Machine{Backend: "cuda", Name: "synthetic, not measured", PCIID: "10de:2335", Arch: "sm_90", SMs: 132,
			Memory: 139 << 30, GPUs: ranks, Link: "nv18", Driver: "0", CUDA: "0"},
		ABI: "synthetic", Space: "synthetic", Policy: "synthetic", Seed: s.Seed, Strategy: "race",
		Empty: map[string]float64{"chain": 1.1e-6}, Warnings: []string{"synthetic: drawn from a formula, not measured"},
	}
	for _, op := range s.Ops {
		for _, routing := range s.Routings {
			for _, tokens := range s.Tokens {
				g.addCase(problem(op, tokens), routing)
			}
		}
	}
	return g.run, g.results
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func problem(op ep.Op, tokens int) ep.Problem {
	return ep.Problem{Op: op, Mode: ep.Graph, Ranks: ranks, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: tokens, MaxTokens: max(tokens, 1), Dispatch: ep.BF16, Combine: ep.BF16}
}

type maker struct {
	Spec
	rng     *rand.Rand
	run     *record.Run
	results []record.Result
}

func (g *maker) addCase(p ep.Problem, routing string) {
	skew := 1.0
	if routing != "uniform" {
		skew = 1.7
	}
	wire := float64(p.Tokens) * 4.633 * 14336 * skew
	g.run.AA = append(g.run.AA, record.AA{Problem: p.Key(), Routing: routing, Ratio: 1, Spread: g.Noise / 4, Rounds: 30})
	g.run.Workloads = append(g.run.Workloads, record.Workload{Problem: p.Key(), Routing: routing, Seed: g.Seed, Class: "even",
		BytesOut: int64(wire * 1.5), BytesWire: int64(wire), Stats: map[string]float64{"rank_max_mean": skew}})
	def := config(p, 32, 256, g.Chunks[0])
	g.block(p, routing, def, block{record.Default, record.StageAA, 0, 10})
	g.block(p, routing, def, block{record.Twin, record.StageAA, 0, 10})
	g.block(p, routing, def, block{record.Default, record.StageScreen, 10, g.Rounds})
	best, at := def, math.Inf(1)
	for _, sms := range g.SMs {
		for _, threads := range g.Threads {
			for _, chunk := range g.Chunks {
				c := config(p, sms, threads, chunk)
				if c.Key() == def.Key() {
					continue
				}
				if t := law(p, c, skew); t < at && !g.fails(c) {
					best, at = c, t
				}
				g.block(p, routing, c, block{record.Candidate, record.StageScreen, 10, g.Rounds})
			}
		}
	}
	if g.Confirm > 0 {
		g.block(p, routing, def, block{record.Default, record.StageConfirm, 20, g.Confirm})
		if best.Key() != def.Key() {
			g.block(p, routing, best, block{record.Candidate, record.StageConfirm, 20, g.Confirm})
		}
	}
}

func config(p ep.Problem, sms, threads, chunk int) ep.Config {
	c := ep.Config{Kernel: "synthetic-" + string(p.Op), Values: map[string]ep.Value{
		"sms": ep.Value(fmt.Sprint(sms)), "threads": ep.Value(fmt.Sprint(threads))}}
	if chunk > 0 {
		c.Values["chunk"] = ep.Value(fmt.Sprint(chunk))
	}
	return c
}

// law is a time in seconds: a start, a wire that few SMs cannot fill, and a
// price for many blocks.
func law(p ep.Problem, c ep.Config, skew float64) float64 {
	sms, threads := float64(c.Int("sms")), float64(c.Int("threads"))
	bytes := float64(p.Tokens) * 4.633 * 14336 * skew
	rate := 340e9 * (1 - math.Exp(-sms*math.Sqrt(threads/256)/6))
	chunk := 1 + 0.02*math.Abs(math.Log2(float64(max(c.Int("chunk"), 256))/256))
	t := 6e-6 + bytes/rate*chunk + 1.2e-8*sms + 2e-9*threads
	if p.Op == ep.Combine {
		t *= 1.15
	}
	return t
}

// fails says that a candidate is broken; it depends on the candidate alone.
func (g *maker) fails(c ep.Config) bool {
	return g.Failures && c.Int("threads") == 1024 && c.Int("sms") >= 64
}

type block struct {
	role   record.Role
	stage  record.Stage
	round0 int
	rounds int
}

func (g *maker) block(p ep.Problem, routing string, c ep.Config, b block) {
	r := record.Result{Schema: record.Schema, Seq: len(g.results), Time: epoch, Problem: p, Routing: routing, Seed: g.Seed,
		Config: c, Role: b.role, Stage: b.stage, Status: ep.OK, Clock: "chain", Fold: 8, Round0: b.round0, End: true}
	if g.fails(c) {
		r.Status, r.Reason = ep.Hang, "rank 3 waited 2.0 s for expert 17 of rank 5 in phase wait"
		if c.Int("sms") > 64 {
			r.Status, r.Reason = ep.NoLaunch, "132 blocks of 1024 threads cannot be resident at once: at most 96 are"
		}
		g.results = append(g.results, r)
		return
	}
	skew := 1.0
	if routing != "uniform" {
		skew = 1.7
	}
	t := law(p, c, skew)
	if g.Noise == 0 {
		t = math.Round(t*1e7) / 1e7 // a coarse clock: many configurations tie
	}
	if g.Zero && c.Int("sms") == 4 {
		t = 0
	}
	if g.Slow != nil {
		t *= g.Slow(p, routing)
	}
	for range b.rounds {
		slow := g.rng.IntN(ranks)
		level := t * math.Exp(g.Noise*g.rng.NormFloat64())
		if g.Noise > 0 && g.rng.Float64() < 0.02 {
			level *= 1.2
		}
		row := make([]float64, ranks)
		for k := range row {
			row[k] = level * (1 - g.Noise*g.rng.Float64())
		}
		row[slow] = level
		r.Seconds = append(r.Seconds, row)
	}
	g.results = append(g.results, r)
}
