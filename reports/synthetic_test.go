package reports_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// spec describes a run whose times come from a formula and random numbers.
type spec struct {
	Seed     uint64
	Ops      []ep.Op
	Tokens   []int
	Routings []string
	SMs      []int
	Threads  []int
	Chunks   []int                            // empty: no third parameter
	Rounds   int                              // rounds of a candidate
	Confirm  int                              // rounds of a finalist; 0: no confirmation
	Sessions int                              // besides the first session
	Between  float64                          // deviation of log(time) between sessions
	Noise    float64                          // deviation of log(time) between rounds
	Slow     func(ep.Problem, string) float64 // factor; nil: 1
	Failures bool
	Zero     bool // times with 4 SMs are 0
}

func small() spec {
	return spec{
		Seed: 1, Ops: []ep.Op{ep.Dispatch, ep.Combine}, Tokens: []int{1, 8, 64, 512},
		Routings: []string{"uniform", "zipf:1.0"}, SMs: []int{4, 8, 16, 32, 64, 132}, Threads: []int{128, 256, 512, 1024},
		Rounds: 3, Confirm: 30, Noise: 0.02, Failures: true,
	}
}

func ties() spec {
	return spec{
		Seed: 1, Ops: []ep.Op{ep.Dispatch}, Tokens: []int{0, 1, 64}, Routings: []string{"uniform", "zipf:1.0"},
		SMs: []int{4, 8, 16}, Threads: []int{256, 512}, Chunks: []int{128, 256}, Rounds: 3, Confirm: 12, Zero: true,
	}
}

// forty has forty cases: 2 ops x 2 routings x 10 token counts.
func forty(seed uint64, rounds int, noise float64) spec {
	s := spec{Seed: seed, Ops: []ep.Op{ep.Dispatch, ep.Combine}, Tokens: []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
		Routings: []string{"uniform", "zipf:1.0"}, SMs: []int{32}, Threads: []int{256}, Rounds: 1, Confirm: rounds, Noise: noise}
	return s
}

func (s spec) inSessions() spec {
	s.Sessions, s.Between = 12, 0.01
	return s
}

func (s spec) load(name string) *reports.Loaded {
	run, results := s.draw()
	return &reports.Loaded{Path: name, Run: run, Results: results, Cases: reports.Cases(run, results)}
}

const ranks = 8

func (s spec) draw() (*record.Run, []record.Result) {
	g := &maker{spec: s, rng: rand.New(rand.NewPCG(s.Seed, 7))}
	if len(g.Chunks) == 0 {
		g.Chunks = []int{0}
	}
	g.run = &record.Run{
		Schema: record.Schema, Tool: "synthetic", Command: []string{"synthetic"}, Started: epoch, Finished: epoch.Add(time.Minute),
		Machine: ep.Machine{Backend: "cuda", Name: "synthetic, not measured", PCIID: "10de:2335", Arch: "sm_90", SMs: 132,
			Memory: 139 << 30, GPUs: ranks, Link: "nv18", Driver: "0", CUDA: "0"},
		ABI: "synthetic", Space: "synthetic", Policy: "synthetic", Band: 0.01, Seed: s.Seed, Strategy: "race",
		Empty: map[string]float64{"chain": 1.1e-6}, Warnings: []string{"synthetic: drawn from a formula, not measured"},
	}
	for _, op := range s.Ops {
		for _, routing := range s.Routings {
			for _, tokens := range s.Tokens {
				g.addCase(problem(op, tokens), routing)
			}
		}
		for _, tokens := range s.Tokens {
			g.cross(problem(op, tokens))
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
	spec
	rng     *rand.Rand
	run     *record.Run
	results []record.Result
	cases   []*synthetic
}

type synthetic struct {
	problem       ep.Problem
	routing       string
	defaultConfig ep.Config
	search        record.Search
	effects       stat.Effects
}

// skewOf returns the largest load divided by the mean load, and the class of the routing.
func skewOf(routing string) (float64, ep.Class) {
	if routing == "uniform" {
		return 1, ep.Even
	}
	return 1.7, ep.Skewed
}

func (g *maker) addCase(p ep.Problem, routing string) {
	skew, class := skewOf(routing)
	wire := float64(p.Tokens) * 4.633 * 14336 * skew
	g.run.AA = append(g.run.AA, record.AA{Problem: p.Key(), Routing: routing, Ratio: 1, Spread: g.Noise / 4, Rounds: 30})
	g.run.Workloads = append(g.run.Workloads, record.Workload{Problem: p.Key(), Routing: routing, Seed: g.Seed, Class: class,
		BytesOut: int64(wire * 1.5), BytesWire: int64(wire), Stats: map[string]float64{"rank_max_mean": skew}})
	c := &synthetic{problem: p, routing: routing, defaultConfig: config(p, 32, 256, g.Chunks[0]), search: record.Search{
		Problem: p, Routing: routing, Class: class, Clock: "chain", Ties: 1, Bytes: int64(wire * 1.5), Imbalance: skew}}
	g.block(c, c.defaultConfig, block{role: record.Default, stage: record.StageAA, rounds: 10})
	g.block(c, c.defaultConfig, block{role: record.Twin, stage: record.StageAA, rounds: 10})
	g.block(c, c.defaultConfig, block{role: record.Default, stage: record.StageScreen, round0: 10, rounds: g.Rounds})
	best := g.screen(c)
	if g.Confirm > 0 {
		g.decide(c, best)
		g.cases = append(g.cases, c)
	}
}

// screen draws the times of each candidate. It returns the config that is fastest without noise.
func (g *maker) screen(c *synthetic) ep.Config {
	skew, _ := skewOf(c.routing)
	best, at := c.defaultConfig, math.Inf(1)
	for _, sms := range g.SMs {
		for _, threads := range g.Threads {
			for _, chunk := range g.Chunks {
				cfg := config(c.problem, sms, threads, chunk)
				c.search.Tried++
				if cfg.Key() == c.defaultConfig.Key() {
					continue
				}
				if g.fails(cfg) {
					c.search.Failed++
				} else if t := law(c.problem, cfg, skew); t < at && !g.zero(cfg) {
					best, at = cfg, t
				}
				g.block(c, cfg, block{role: record.Candidate, stage: record.StageScreen, round0: 10, rounds: g.Rounds})
			}
		}
	}
	c.search.Legal = c.search.Tried
	return best
}

// decide draws the rounds of the confirmation. stat.Decide then chooses a config.
func (g *maker) decide(c *synthetic, challenger ep.Config) {
	defaultConfig := g.block(c, c.defaultConfig, block{role: record.Default, stage: record.StageConfirm, round0: 20, rounds: g.Confirm})
	rounds, gain := defaultConfig, stat.Exactly(g.Confirm)
	if challenger.Key() != c.defaultConfig.Key() {
		rounds = g.block(c, challenger, block{role: record.Candidate, stage: record.StageConfirm, round0: 20, rounds: g.Confirm})
		gain = stat.Ratio(stat.Part{A: stat.Logs(defaultConfig), B: stat.Logs(rounds)})
	}
	g.furtherSessions(c, challenger)
	c.search.Decision = stat.Decide(stat.Comparison{Config: challenger, Default: c.defaultConfig, Gain: gain,
		Band: record.Band{Policy: g.run.Band, AA: g.Noise / 4}})
	c.search.Times, c.search.DefaultTimes = stat.TimesOf(rounds), stat.TimesOf(defaultConfig)
	if c.search.Decision.KeepsDefault() {
		c.search.Times = c.search.DefaultTimes
	}
	c.effects = stat.Effects{c.defaultConfig.Key(): 0, challenger.Key(): -math.Log(gain.Mid)}
	g.run.Searches = append(g.run.Searches, c.search)
}

func (g *maker) furtherSessions(c *synthetic, challenger ep.Config) {
	for n := range g.Sessions {
		b := block{role: record.Default, stage: record.StageSession, session: n + 1, round0: 100 + n*g.Confirm, rounds: g.Confirm}
		g.block(c, c.defaultConfig, b)
		if challenger.Key() != c.defaultConfig.Key() {
			b.role = record.Candidate
			g.block(c, challenger, b)
		}
	}
}

func (g *maker) cross(p ep.Problem) {
	group := slices.DeleteFunc(slices.Clone(g.cases), func(c *synthetic) bool { return c.problem != p })
	if len(group) < 2 {
		return
	}
	configs := []ep.Config{group[0].defaultConfig}
	keys := []string{group[0].defaultConfig.Key()}
	for _, c := range group {
		if w := c.search.Decision.Config; !slices.Contains(keys, w.Key()) {
			configs, keys = append(configs, w), append(keys, w.Key())
		}
	}
	var tuned []stat.TunedRouting
	var under []stat.Effects
	for _, c := range group {
		defaultConfig := g.block(c, c.defaultConfig, block{role: record.Default, stage: record.StageCross, round0: 50, rounds: g.Confirm})
		for _, cfg := range configs {
			if _, seen := c.effects[cfg.Key()]; !seen {
				rounds := g.block(c, cfg, block{role: record.Candidate, stage: record.StageCross, round0: 50, rounds: g.Confirm})
				c.effects[cfg.Key()] = math.Log(stat.PairedRatio(stat.Logs(rounds), stat.Logs(defaultConfig)).Mid)
			}
		}
		under = append(under, c.effects)
		tuned = append(tuned, stat.TunedRouting{Routing: c.routing, Config: c.search.Decision.Config, Effects: c.effects})
	}
	at, _ := stat.Minimax(under, keys, g.run.Band)
	g.run.Regrets = append(g.run.Regrets, stat.NewRegret(p, tuned, configs[at]))
}

func config(p ep.Problem, sms, threads, chunk int) ep.Config {
	c := ep.Config{Kernel: "synthetic-" + string(p.Op), Values: map[string]ep.Value{
		"sms": ep.Value(fmt.Sprint(sms)), "threads": ep.Value(fmt.Sprint(threads))}}
	if chunk > 0 {
		c.Values["chunk"] = ep.Value(fmt.Sprint(chunk))
	}
	return c
}

// law returns the time of a call in seconds.
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

// fails reports whether a candidate fails.
func (g *maker) fails(c ep.Config) bool {
	return g.Failures && c.Int("threads") == 1024 && c.Int("sms") >= 64
}

func (g *maker) zero(c ep.Config) bool { return g.Zero && c.Int("sms") == 4 }

type block struct {
	role    record.Role
	stage   record.Stage
	session int // 0: the session of the search
	round0  int
	rounds  int
}

func (g *maker) block(of *synthetic, c ep.Config, b block) []float64 {
	r := record.Result{Schema: record.Schema, Seq: len(g.results), Time: epoch, Problem: of.problem, Routing: of.routing, Seed: g.Seed,
		Config: c, Cost: ep.Cost{SMs: c.Int("sms"), Threads: c.Int("threads"), Bytes: c.Int("chunk")}, Role: b.role, Stage: b.stage, Session: b.session, Status: ep.OK, Clock: "chain", Fold: 8, Round0: b.round0, End: true}
	if g.fails(c) {
		r.Status, r.Reason = ep.Hang, "rank 3 waited 2.0 s for expert 17 of rank 5 in phase wait"
		if c.Int("sms") > 64 {
			r.Status, r.Reason = ep.LaunchFailed, "132 blocks of 1024 threads cannot be resident at once: at most 96 are"
		}
		g.results = append(g.results, r)
		return nil
	}
	skew, _ := skewOf(of.routing)
	t := law(of.problem, c, skew)
	if g.Noise == 0 {
		t = math.Round(t*1e7) / 1e7
	}
	if g.zero(c) {
		t = 0
	}
	if g.Slow != nil {
		t *= g.Slow(of.problem, of.routing)
	}
	if b.session > 0 {
		t *= math.Exp(g.Between * g.rng.NormFloat64())
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
	return r.Rounds()
}

// TestSyntheticRuns: the runs in testdata equal the runs that are made from the specs.
func TestSyntheticRuns(t *testing.T) {
	for name, s := range map[string]spec{"failures": small(), "ties": ties()} {
		dir := filepath.Join("testdata", "runs", name)
		run, results := s.draw()
		if os.Getenv("EPBENCH_UPDATE") == "1" {
			save(t, dir, run, results)
		}
		l, err := reports.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(l.Run, run) || !reflect.DeepEqual(l.Results, results) {
			t.Errorf("%s differs from the drawn run; EPBENCH_UPDATE=1 writes it again", dir)
		}
	}
}

func save(t *testing.T, dir string, run *record.Run, results []record.Result) {
	t.Helper()
	var log []byte
	for i := range results {
		var err error
		if log, err = results[i].AppendJSON(log); err != nil {
			t.Fatal(err)
		}
	}
	head, err := json.Marshal(run)
	if err = errors.Join(err, os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, record.RunFile), head, 0o666),
		os.WriteFile(filepath.Join(dir, record.TrialsFile), log, 0o666)); err != nil {
		t.Fatal(err)
	}
}
