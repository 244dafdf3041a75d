package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/formats"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/plan"
	"github.com/epbench/epbench/workloads"
)

// emulation runs a dispatch and a combine of one state as CPU code: a file
// holds the memory of all ranks, and each job is a process that maps it.
type emulation struct {
	t      *testing.T
	w      *workloads.Workload
	oracle *ref.Oracle
	d, c   family
	dc, cc plan.Config
	heap   heap
	arena  string
	mem    []byte
	object map[string]string // by kernel name
	drills []string          // extra statements of every job
}

const emulDeadline = 20e9

var emulHarness = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "emul")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "harness")
	return out, gxx("-rdynamic", "-o", out, "../../native/emul/src/harness.cpp", "../../native/emul/src/fiber.cpp", "-ldl", "-lpthread")
})

func gxx(args ...string) error {
	base := []string{"-std=c++20", "-O1", "-g", "-DEP_EMULATE", "-I../../native/emul/src", "-I../../native/include", "-I../../native/kernels"}
	out, err := exec.Command("g++", append(base, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("g++: %w\n%s", err, out)
	}
	return nil
}

func (e *emulation) build(f family, c plan.Config) string {
	e.t.Helper()
	m := emulMachine()
	if err := f.kernel.Check(m, e.w.Problem, c); err != nil {
		e.t.Fatal(err)
	}
	out := filepath.Join(e.t.TempDir(), f.kernel.Name+".so")
	args := []string{"-x", "c++", "-shared", "-fPIC", "-o", out}
	for _, d := range append(problemDefines(e.w.Problem), f.defines(m, e.w.Problem, c)...) {
		args = append(args, "-D"+d)
	}
	if err := gxx(append(args, "../../native/kernels/"+f.source)...); err != nil {
		e.t.Fatal(err)
	}
	return out
}

func emulMachine() plan.Machine {
	return plan.Machine{Backend: "cuda", Arch: "sm_90", SMs: 132, GPUs: 8}
}

func newEmulation(t *testing.T, w *workloads.Workload, d family, dc plan.Config, c family, cc plan.Config) *emulation {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++")
	}
	if _, err := emulHarness(); err != nil {
		t.Fatal(err)
	}
	e := &emulation{t: t, w: w, oracle: ref.New(w, 1), d: d, c: c, dc: dc, cc: cc, object: map[string]string{}}
	e.object[d.kernel.Name] = e.build(d, dc)
	e.object[c.kernel.Name] = e.build(c, cc)
	parts := append(problemParts(w.Problem), stateParts(d, w.Problem)...)
	parts = append(parts, region{"fault", 64, 0})
	e.heap = newHeap(parts)
	e.arena = filepath.Join(t.TempDir(), "arena")
	e.mem = make([]byte, e.heap.bytes*int64(w.Problem.Ranks))
	for r := range w.Problem.Ranks {
		for _, p := range parts {
			fill(e.part(r, p.name), p.fill)
		}
		e.inputs(r)
	}
	e.save()
	return e
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func (e *emulation) save() {
	if err := os.WriteFile(e.arena, e.mem, 0o600); err != nil {
		e.t.Fatal(err)
	}
}

func (e *emulation) at(rank int, name string) int64 {
	return int64(rank)*e.heap.bytes + e.heap.offset[name]
}

func (e *emulation) part(rank int, name string) []byte {
	at := e.at(rank, name)
	for _, p := range e.heap.parts {
		if p.name == name {
			return e.mem[at : at+p.bytes]
		}
	}
	panic(name)
}

func (e *emulation) inputs(rank int) {
	h := e.w.Problem.Hidden
	x, row := e.part(rank, partX), make([]uint16, h)
	for t := range e.w.Ranks[rank].Tokens {
		e.w.Token(rank, t, row)
		for i, v := range row {
			binary.LittleEndian.PutUint16(x[2*(t*h+i):], v)
		}
	}
	ids, weights := e.part(rank, partIDs), e.part(rank, partWeights)
	for i, id := range e.w.Ranks[rank].Experts {
		binary.LittleEndian.PutUint32(ids[4*i:], uint32(id))
		binary.LittleEndian.PutUint32(weights[4*i:], math.Float32bits(e.w.Ranks[rank].Weights[i]))
	}
}

// statements set every field of every rank's EpArgs for one state.
func (e *emulation) statements() []string {
	p := e.w.Problem
	var s []string
	add := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	add("ranks %d", p.Ranks)
	add("set * ranks %d", p.Ranks)
	add("set * max_tokens %d", p.MaxTokens)
	add("set * max_rows %d", formats.MaxRows(p))
	add("set * deadline_ns %d", int64(emulDeadline))
	fields := map[string]string{"x": partX, "topk_ids": partIDs, "weights": partWeights, "out": partOut,
		"out_scales": partScales, "row_offsets": partRowOffsets, "expert_ids": partExpertIDs, "src_info": partSrcInfo,
		"y": partY, "combined": partCombined, "counters": e.d.state + ".counters", "round_base": e.d.state + ".rounds", "fault": "fault"}
	for r := range p.Ranks {
		add("set %d rank %d", r, r)
		add("set %d tokens %d", r, e.w.Ranks[r].Tokens)
		for field, part := range fields {
			add("ptr %d %s %d", r, field, e.at(r, part))
		}
		for q := range p.Ranks {
			add("ptr %d heap[%d] %d", r, q, int64(q)*e.heap.bytes)
		}
		for i, g := range e.d.regions(p) {
			add("set %d region[%d] %d", r, i, e.heap.offset[e.d.state+"."+g.name])
		}
	}
	return append(s, e.drills...)
}

// launchLine spells one launch for the harness.
func launchLine(l launch) string {
	s := fmt.Sprintf("launch %s %d %d %d sms=%d wait_sms=%d count_sms=%d chunk_bytes=%d", l.entry, l.grid, l.block, l.shared,
		l.params.sms, l.params.waitSMs, l.params.countSMs, l.params.chunkBytes)
	for i, v := range l.params.tune {
		s += fmt.Sprintf(" tune[%d]=%d", i, v)
	}
	return s
}

// run performs n calls of the ops, all ranks at once, without a barrier.
func (e *emulation) run(n int, ops ...plan.Op) {
	e.t.Helper()
	e.save()
	job := append([]string{"arena " + e.arena}, e.statements()...)
	job = append(job, fmt.Sprintf("seed %d", e.w.Seed))
	for _, op := range ops {
		f, c := e.d, e.dc
		if op == plan.Combine {
			f, c = e.c, e.cc
		}
		job = append(job, "object "+e.object[f.kernel.Name])
		for _, l := range f.launches(emulMachine(), e.w.Problem, c) {
			job = append(job, launchLine(l))
		}
	}
	job = append(job, fmt.Sprintf("run %d", n))
	harness, _ := emulHarness()
	cmd := exec.Command(harness)
	cmd.Stdin = strings.NewReader(strings.Join(job, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("harness: %v\n%s", err, out)
	}
	var err error
	if e.mem, err = os.ReadFile(e.arena); err != nil {
		e.t.Fatal(err)
	}
	for r := range e.w.Problem.Ranks {
		if f := e.part(r, "fault"); f[0] != 0 {
			u := func(i int) uint32 { return binary.LittleEndian.Uint32(f[i:]) }
			e.t.Fatalf("rank %d gave up in phase %d waiting for expert %d of rank %d: block %d want %d got %d",
				u(4), u(8), int32(u(12)), int32(u(16)), u(20), binary.LittleEndian.Uint64(f[24:]), binary.LittleEndian.Uint64(f[32:]))
		}
	}
}

// calls tells the device how many calls of the op to come were made before.
func (e *emulation) calls(n int) {
	for r := range e.w.Problem.Ranks {
		binary.LittleEndian.PutUint32(e.part(r, e.d.state+".rounds"), uint32(n))
	}
}

func (e *emulation) poison(names ...string) {
	for r := range e.w.Problem.Ranks {
		for _, n := range names {
			fill(e.part(r, n), 0xff)
		}
	}
}

func words32[T int32 | uint32](b []byte) []T {
	out := make([]T, len(b)/4)
	for i := range out {
		out[i] = T(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func (e *emulation) checkDispatch() {
	e.t.Helper()
	p := e.w.Problem
	var v kernels.Verdict
	for r := range p.Ranks {
		out := ref.Output{
			RowOffsets: words32[uint32](e.part(r, partRowOffsets)),
			ExpertIDs:  words32[int32](e.part(r, partExpertIDs)),
			SrcInfo:    words32[int32](e.part(r, partSrcInfo)),
			MaxRows:    formats.MaxRows(p),
			Scales:     e.part(r, partScales),
			Payload:    ref.Flat(e.part(r, partOut), layout(p).Payload),
		}
		v = ref.Merge(v, e.oracle.CheckDispatch(r, out, ref.Compare{Ordered: true}))
	}
	if !v.OK() {
		e.t.Fatalf("dispatch: %d of %d rows wrong: %s", v.Wrong, v.Rows, v.Detail)
	}
}

// experts computes y from what dispatch delivered.
func (e *emulation) experts() {
	p := e.w.Problem
	row := make([]uint16, p.Hidden)
	for r := range p.Ranks {
		y := e.part(r, partY)
		d := e.oracle.Dispatch(r)
		for g, group := range d.Groups {
			at := int(d.RowOffsets[g])
			for s, items := range group.Items {
				for _, it := range items {
					e.oracle.ExpertRow(group.Sources[s], it.Token, group.Expert, row)
					for i, v := range row {
						binary.LittleEndian.PutUint16(y[2*(at*p.Hidden+i):], v)
					}
					at++
				}
			}
		}
	}
}

func (e *emulation) checkCombine(c ref.Compare) {
	e.t.Helper()
	p := e.w.Problem
	var v kernels.Verdict
	row := make([]uint16, p.Hidden)
	for r := range p.Ranks {
		b := e.part(r, partCombined)
		v = ref.Merge(v, e.oracle.CheckCombine(r, func(t int) []uint16 {
			for i := range row {
				row[i] = binary.LittleEndian.Uint16(b[2*(t*p.Hidden+i):])
			}
			return row
		}, c))
	}
	if !v.OK() {
		e.t.Fatalf("combine: %d of %d tokens wrong: %s", v.Wrong, v.Rows, v.Detail)
	}
}

// late makes every rank start each of its calls late by an amount of its own.
func (e *emulation) late() {
	for r := range e.w.Problem.Ranks {
		e.drills = append(e.drills, fmt.Sprintf("set %d delay_ns %d", r, r*r%5*300_000))
	}
}

// drill checks one pair, one lone combine more, then many pairs without a
// barrier on ranks of unlike pace.
func (e *emulation) drill(pairs int) {
	e.t.Helper()
	compare := ref.Compare{Bits: true, PreReduced: e.cc.Str("algo") == "dedup"}
	e.run(1, plan.Dispatch)
	e.checkDispatch()
	e.experts()
	for i := range 2 {
		e.calls(i)
		e.run(1, plan.Combine)
		e.checkCombine(compare)
		e.poison(partCombined)
	}
	e.calls(1)
	e.run(1, plan.Dispatch)
	e.poison(partOut, partScales, partRowOffsets, partSrcInfo, partExpertIDs)
	e.calls(2)
	e.late()
	e.run(pairs, plan.Dispatch, plan.Combine)
	e.checkDispatch()
	e.checkCombine(compare)
}

// emulWorkload draws distinct experts and weights: tokens[rank] tokens, a share
// hot of them visiting expert 0, a share masked of the positions masked.
func emulWorkload(p plan.Problem, tokens []int, hot, masked float64, seed uint64) *workloads.Workload {
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

func drawToken(rng *rand.Rand, p plan.Problem, hot, masked float64, ids []int32, weights []float32) {
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
