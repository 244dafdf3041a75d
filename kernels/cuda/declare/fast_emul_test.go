package declare

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// fastCase is a workload and a pair of kernels other than the ep kernels.
type fastCase struct {
	p                 ep.Problem
	tokens            []int   // for each rank, repeated for further ranks
	hot, masked       float64 // see emulWorkload
	dispatch, combine string  // changes to the defaults, name=value,...
	pairs             int
}

func pairProblem(f ep.DType, ranks, hidden, experts, topK, maxTokens int) ep.Problem {
	return ep.Problem{Op: ep.Pair, Mode: ep.Graph, Ranks: ranks, Nodes: 1, Hidden: hidden, Experts: experts, TopK: topK,
		Tokens: maxTokens, MaxTokens: maxTokens, Dispatch: f, Combine: ep.BF16}
}

func (q fastCase) name() string {
	return strings.ReplaceAll(fmt.Sprintf("%s-r%d-h%d-e%d-k%d-%v %s %s", q.p.Dispatch, q.p.Ranks, q.p.Hidden, q.p.Experts, q.p.TopK,
		q.tokens, q.dispatch, q.combine), " ", "_")
}

// fastPair is an emulated pair: declarations (d, c) and configs (dc, cc) of dispatch and combine.
type fastPair struct {
	*emulated
	d, c   Declaration
	dc, cc ep.Config
}

func (q fastCase) prepare(t *testing.T, d, c Declaration) fastPair {
	t.Helper()
	dc, cc := overDefault(t, d, q.p, q.dispatch), overDefault(t, c, q.p, q.combine)
	return fastPair{emulate(t, emulWorkload(q.p, q.tokens, q.hot, q.masked, 7), c.StateOf(cc), 1), d, c, dc, cc}
}

func overDefault(t *testing.T, f Declaration, p ep.Problem, changes string) ep.Config {
	t.Helper()
	c := f.Kernel.DefaultConfig(onCPU(), p)
	over, err := ep.ParseConfig(f.Kernel.Name + ":" + changes)
	if err != nil {
		t.Fatal(err)
	}
	for n, v := range over.Values {
		c = c.With(n, v)
	}
	return c
}

// after numbers the next calls n+1, n+2, ...
func (e fastPair) after(n int) fastPair {
	e.rounds = n // in `emulated`, which copies of e share
	return e
}

// late delays each rank's calls by a different time.
func (e fastPair) late() {
	for r := range e.w.Problem.Ranks {
		e.extra = append(e.extra, fmt.Sprintf("set %d delay_ns %d", r, r*r%5*300_000))
	}
}

// reroute gives every rank another routing and token count. Old data stays.
func (q fastCase) reroute(e fastPair) {
	w := emulWorkload(q.p, append(q.tokens[1:], q.tokens[0]), q.hot/2, q.masked, 8)
	e.w, e.oracle = w, ref.New(w, 1)
	for r := range w.Ranks {
		e.inputs(r)
	}
}

// checkCalls compares outputs with the oracle, after single calls, pairs, and pairs with another routing. There are no
// barriers between calls, and ranks have different delays.
func (q fastCase) checkCalls(e fastPair) {
	e.t.Helper()
	ordered := ref.Compare{Ordered: true}
	compare := ref.Compare{Bits: true, Partial: partialOf(e.cc)}
	e.run(1, e.call(e.d, e.dc), e.experts())
	e.checkDispatch(ordered)
	e.late()
	e.after(0).run(5, e.call(e.c, e.cc))
	e.checkCombine(compare)
	e.after(1).run(4, e.call(e.d, e.dc))
	e.poison(PartOut, PartScales, PartRowOffsets, PartSrcInfo, PartExpertIDs, PartY, PartCombined)
	e.after(5).run(q.pairs, e.call(e.d, e.dc), e.experts(), e.call(e.c, e.cc))
	e.checkDispatch(ordered)
	e.checkCombine(compare)
	q.reroute(e)
	for _, n := range []int{1, 2} { // the first call could read data of the previous routing
		e.run(n, e.call(e.d, e.dc), e.experts(), e.call(e.c, e.cc))
		e.checkDispatch(ordered)
		e.checkCombine(compare)
	}
	e.checkIdle()
}

// checkEach runs checkCalls in a parallel subtest for each case and layout.
func checkEach(t *testing.T, d, c Declaration, cases []fastCase, layouts ...ep.Layout) {
	t.Helper()
	for _, q := range cases {
		if len(layouts) == 0 {
			q.check(t, q.name(), d, c)
		}
		for _, layout := range layouts {
			q.p.Layout = layout
			q.check(t, layout.String()+"_"+q.name(), d, c)
		}
	}
}

// check runs checkCalls on a copy of q in a parallel subtest.
func (q fastCase) check(t *testing.T, name string, d, c Declaration) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		q.checkCalls(q.prepare(t, d, c))
	})
}

// checkIdle checks layouts expert and masked between calls. All return slots are empty, because a later call would read
// their rows. Each rank has told every rank the number of its last combine. This number decides when others may
// overwrite slots.
func (e fastPair) checkIdle() {
	e.t.Helper()
	state := e.c.StateOf(e.cc)
	if state.Name != "ll" && state.Name != "masked" {
		return
	}
	for r := range e.w.Problem.Ranks {
		for i, b := range e.part(r, state.Part("return")) {
			if b != 0xff {
				e.t.Fatalf("rank %d: byte %d of the return slots is %#x after the calls, not empty", r, i, b)
			}
		}
		began := e.part(r, state.Part("started"))
		for from := range e.w.Problem.Ranks {
			if n := binary.LittleEndian.Uint32(began[4*from:]); n != uint32(e.rounds) {
				e.t.Errorf("rank %d told rank %d that it began call %d, the last was %d", from, r, n, e.rounds)
			}
		}
	}
}

// TestFastKernelsGiveUp: a rank that waits for a lost count writes a fault with the source rank.
func TestFastKernelsGiveUp(t *testing.T) {
	p := pairProblem(ep.BF16, 2, 256, 8, 2, 5)
	for _, q := range []struct {
		fastCase
		d, c Declaration
		want string
	}{
		{fastCase{p: p, tokens: []int{5, 3}, dispatch: "sms=3,threads=128", combine: "sms=2"}, dispatchLL(), combineLL(), "expert 2 source 1"},
		{fastCase{p: p, tokens: []int{5, 3}, dispatch: "sms=3,threads=128", combine: "sms=2"}, dispatchLLIDs(), combineLL(), "expert -1 source 1"},
		{fastCase{p: p, tokens: []int{5, 3}, dispatch: "sms=3,threads=128,wait_sms=1", combine: "sms=2,wait_sms=1"}, dispatchFinal(), combineFinal(), "expert 2 source 1"},
	} {
		t.Run(q.d.Kernel.Name, func(t *testing.T) {
			t.Parallel()
			e := q.prepare(t, q.d, q.c)
			e.extra = append(e.extra, "set 1 drop_signal 3", "set * deadline_ns 300000000")
			e.run(1, e.call(e.d, e.dc))
			if f := e.faultOf(0); !strings.Contains(f, q.want) {
				t.Errorf("rank 0 says %q, want %q", f, q.want)
			}
		})
	}
}

// TestFastLegality: each error names the parameter or field and its bound.
func TestFastLegality(t *testing.T) {
	p := pairProblem(ep.FP8, 8, 7168, 256, 8, 128)
	change := func(f func(*ep.Problem)) ep.Problem {
		q := p
		f(&q)
		return q
	}
	for _, c := range []struct {
		f       Declaration
		p       ep.Problem
		changes string
		want    string
	}{
		{dispatchLL(), p, "", ""},
		{combineLL(), p, "algo=dedup", ""},
		{dispatchFinal(), p, "algo=direct,sms=1,wait_sms=0", ""},
		{combineFinal(), p, "algo=dedup,wait_sms=0", ""},
		{dispatchLL(), p, "sms=133", "sms: 133"},
		{dispatchLL(), p, "sms=0", "sms: 0"},
		{dispatchLL(), p, "threads=100", "threads: 100"},
		{dispatchLL(), p, "send=768", "send: \"768\""},
		{dispatchLL(), p, "part=0", "part: \"0\""},
		{dispatchLL(), p, "threads=64,receivers=2", "receivers: 2"},
		{dispatchLL(), p, "early=1,receivers=8", "receivers: 8"},
		{dispatchLL(), p, "receivers=0,pause=250", "pause: 250"},
		{dispatchLL(), p, "early=2", "early:"},
		{combineLL(), p, "algo=pull", "algo:"},
		{combineLL(), p, "pdl=yes", "pdl:"},
		{dispatchFinal(), p, "sms=8,wait_sms=8", "wait_sms: 8"},
		{combineFinal(), p, "wait_sms=-1", "wait_sms: -1"},
		{combineFinal(), p, "in_flight=6", "in_flight: 6"},
		{combineFinal(), p, "threads=1024,in_flight=16", "in_flight: 16"},
		{dispatchLL(), change(func(q *ep.Problem) { q.Dispatch = ep.NVFP4 }), "", "dtype: dispatch_ll"},
		{combineLL(), change(func(q *ep.Problem) { q.SharedExpert = true }), "", "shared-expert:"},
		{combineFinal(), change(func(q *ep.Problem) { q.SkipA2A = true }), "", "skip-a2a:"},
		{dispatchFinal(), change(func(q *ep.Problem) { q.Hidden = 32768 }), "", "hidden: 32768"},
		{dispatchLL(), change(func(q *ep.Problem) { q.MaxTokens = 1 << 20 }), "", "max-tokens: 1048576"},
	} {
		err := c.f.Check(onCPU(), c.p, overDefault(t, c.f, c.p, c.changes))
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.f.Kernel.Name, c.changes, err, c.want)
		}
	}
}

// emulWorkload draws experts and weights for tokens[rank] tokens. The fraction `hot` of the tokens selects expert 0,
// and the fraction `masked` of the selections is masked.
func emulWorkload(p ep.Problem, tokens []int, hot, masked float64, seed uint64) *workloads.Workload {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &workloads.Workload{Problem: p, Spec: "test", Seed: seed}
	for r := range p.Ranks {
		n := tokens[r%len(tokens)]
		g := workloads.Routing{Tokens: n, Experts: make([]int32, n*p.TopK), Weights: make([]float32, n*p.TopK)}
		for t := range n {
			drawToken(rng, p, hot, masked, g.Experts[t*p.TopK:(t+1)*p.TopK], g.Weights[t*p.TopK:])
		}
		w.Ranks = append(w.Ranks, g)
	}
	return w
}

func drawToken(rng *rand.Rand, p ep.Problem, hot, masked float64, ids []int32, weights []float32) {
	perm := rng.Perm(p.Experts)
	for k := range ids {
		ids[k], weights[k] = int32(perm[k]), rng.Float32()
	}
	if rng.Float64() < hot && perm[0] != 0 {
		ids[0] = 0
		for k := 1; k < len(ids); k++ {
			if ids[k] == 0 {
				ids[k] = int32(perm[0])
			}
		}
	}
	for k := range ids {
		if rng.Float64() < masked {
			ids[k], weights[k] = -1, 0
		}
	}
}

// TestFastKernelsRace: in the ll and final kernels a fence, a barrier or a kernel's end orders any two conflicting
// accesses.
func TestFastKernelsRace(t *testing.T) {
	for _, q := range []struct {
		fastCase
		d, c Declaration
	}{
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=2,threads=64,early=0,receivers=1", "sms=2,threads=64,algo=dedup", 4},
			dispatchLL(), combineLL()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=2,threads=96,early=1,receivers=0", "sms=2,threads=64", 4},
			dispatchLL(), combineLL()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,wait_sms=1,threads=64", "sms=2,wait_sms=1,threads=64,algo=dedup", 4},
			dispatchFinal(), combineFinal()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=2,recv_sms=1,threads=64", "sms=1,recv_sms=2,threads=64,algo=dedup", 4},
			splitting(dispatchLL()), splitting(combineLL())},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,wait_sms=1,threads=96,team=2,scales=tile", "sms=2,wait_sms=1,threads=64,algo=dedup", 4},
			dispatchFinalHome(), combineFinalPartial()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=2,wait_sms=0,threads=64", "own=team,sms=2,wait_sms=0,threads=160,algo=dedup", 4},
			dispatchFinal(), combineFinal()},
		{fastCase{pairProblem(ep.BF16, 4, 1800, 16, 4, 5), []int{5, 3, 0, 4}, 0.3, 0, "sms=2,wait_sms=0,threads=64", "own=team,sms=3,wait_sms=1,threads=128,algo=dedup", 4},
			dispatchFinal(), combineFinal()},
	} {
		t.Run(q.c.Kernel.Name, func(t *testing.T) {
			if holds(q.d.Kernel.DefaultConfig(onCPU(), q.p), "algo=home") {
				oncePerRun(t)
			}
			t.Parallel()
			e := q.prepare(t, q.d, q.c)
			e.tools = need(t, raceTools)
			q.checkCalls(e)
		})
	}
}

func (q fastCase) races(t *testing.T, d, c Declaration) {
	t.Helper()
	e := q.prepare(t, d, c)
	e.tools = need(t, raceTools)
	e.run(3, e.call(e.d, e.dc), e.call(e.c, e.cc))
}
