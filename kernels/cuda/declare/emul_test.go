package declare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
	"github.com/epbench/epbench/workloads"
)

var (
	emulTools = sync.OnceValues(func() (*emulator, error) { return newEmulator() })
	// raceTools compile with a race detector.
	raceTools = sync.OnceValues(func() (*emulator, error) { return newEmulator("-fsanitize=thread") })
)

// need returns the emulator, or skips the test with -short or on a host that cannot emulate. Go's race detector cannot
// look into the emulator, so pass -short with -race.
func need(t *testing.T, get func() (*emulator, error)) *emulator {
	t.Helper()
	if testing.Short() {
		t.Skip("emulation is left out with -short")
	}
	tools, err := get()
	if errors.Is(err, errNoEmulator) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return tools
}

// emulated holds a workload in the memory of one State, and runs that State's kernels on the CPU.
type emulated struct {
	t       *testing.T
	tools   *emulator // replace it before the first job
	w       *workloads.Workload
	oracle  *ref.Oracle
	state   State
	heap    Heap
	arena   string
	process *emulation
	mem     []byte // content between jobs: [rank][heap]
	rounds  int
	extra   []string // further statements, such as faults
	global  float32
}

// emulPatience bounds waits in emulated kernels. On a busy host a block may run only every few seconds.
const emulPatience = 90 * time.Second

func onCPU() ep.Machine { return ep.Machine{Backend: "cuda", Arch: "sm_90", SMs: 132, GPUs: 8} }

// emulate allocates memory for a state's kernels. inputScale is NVFP4's global scale.
func emulate(t *testing.T, w *workloads.Workload, of State, inputScale float32) *emulated {
	t.Helper()
	p := w.Problem
	p.Op = ep.Pair
	parts := append(ProblemParts(p), StateParts(of, p)...)
	parts = append(parts, Zeroed("fault", 64))
	e := &emulated{t: t, tools: need(t, emulTools), w: w, oracle: ref.New(w, inputScale), state: of, heap: NewHeap(parts),
		arena: filepath.Join(t.TempDir(), "arena"), global: inputScale}
	e.reset()
	return e
}

// reset fills all memory as at set-up.
func (e *emulated) reset() {
	e.mem = make([]byte, e.heap.Bytes*int64(e.w.Problem.Ranks))
	e.rounds = 0
	for r := range e.w.Problem.Ranks {
		for _, p := range e.heap.Parts {
			set(e.part(r, p.Name), p.Fill)
		}
		e.inputs(r)
	}
}

func set(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func (e *emulated) at(rank int, name string) int64 {
	return int64(rank)*e.heap.Bytes + e.heap.Offset[name]
}

func (e *emulated) part(rank int, name string) []byte {
	at := e.at(rank, name)
	for _, p := range e.heap.Parts {
		if p.Name == name {
			return e.mem[at : at+p.Bytes]
		}
	}
	panic(name)
}

func (e *emulated) inputs(rank int) {
	batch, h := e.w.BatchRank(rank), e.w.Problem.Hidden
	x, row := e.part(rank, PartX), make([]uint16, h)
	for t := range e.w.Ranks[batch].Tokens {
		e.w.Token(batch, t, row)
		for i, v := range row {
			binary.LittleEndian.PutUint16(x[2*(t*h+i):], v)
		}
	}
	ids, weights := e.part(rank, PartIDs), e.part(rank, PartWeights)
	for i, id := range e.w.Ranks[batch].Experts {
		binary.LittleEndian.PutUint32(ids[4*i:], uint32(id))
		binary.LittleEndian.PutUint32(weights[4*i:], math.Float32bits(e.w.Ranks[batch].Weights[i]))
	}
	binary.LittleEndian.PutUint32(e.part(rank, PartInputScale), math.Float32bits(e.global))
	for i := range h {
		binary.LittleEndian.PutUint16(e.part(rank, PartBias)[2*i:], ref.BF16(e.bias(i)))
	}
}

func (e *emulated) bias(column int) float32 { return float32(column%7) - 3 }

// fieldParts maps fields of EpArgs to parts of the heap.
func (e *emulated) fieldParts() map[string]string {
	return map[string]string{"x": PartX, "topk_ids": PartIDs, "weights": PartWeights, "input_scales": PartInputScale,
		"bias": PartBias, "out": PartOut, "out_scales": PartScales, "row_offsets": PartRowOffsets, "expert_ids": PartExpertIDs,
		"src_info": PartSrcInfo, "scale_offsets": PartScaleOffsets, "y": PartY, "combined": PartCombined,
		"counters": e.state.Part("counters"), "round_base": e.state.Part("rounds"), "fault": "fault"}
}

func (e *emulated) arguments() []string {
	p := e.w.Problem
	var s []string
	add := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	add("ranks %d", p.Ranks)
	for field, v := range map[string]int{"ranks": p.Ranks, "max_tokens": p.MaxTokens, "max_rows": dtype.MaxRows(p),
		"deadline_ns": int(emulPatience), "skip_a2a": Bit(p.SkipA2A), "allreduce_size": p.Ranks} {
		add("set * %s %d", field, v)
	}
	for r := range p.Ranks {
		add("set %d rank %d", r, r)
		add("set %d tokens %d", r, e.w.Ranks[e.w.BatchRank(r)].Tokens)
		for field, part := range e.fieldParts() {
			add("ptr %d %s %d", r, field, e.at(r, part))
		}
		for q := range p.Ranks {
			add("ptr %d heap[%d] %d", r, q, int64(q)*e.heap.Bytes)
		}
		for i, g := range e.state.RegionsFor(p) {
			add("set %d region[%d] %d", r, i, e.heap.Offset[e.state.Part(g.Name)])
		}
	}
	return append(s, e.extra...)
}

func (e *emulated) call(f Declaration, c ep.Config) []string {
	e.t.Helper()
	if err := f.Check(onCPU(), e.w.Problem, c); err != nil {
		e.t.Fatal(err)
	}
	s := []string{e.object(f.source, f.defines(c))}
	for _, l := range f.Launches(e.w.Problem, c) {
		s = append(s, launchLine(l))
	}
	return s
}

// experts returns statements that replace the experts between dispatch and combine.
func (e *emulated) experts() []string {
	e.t.Helper()
	return []string{e.object(ExpertSource(e.w.Problem), nil), "launch ep_expert 2 64 0"}
}

func (e *emulated) object(source string, defines []string) string {
	e.t.Helper()
	object, err := e.tools.compile(source, append(problemDefines(e.w.Problem), defines...))
	if err != nil {
		e.t.Fatal(err)
	}
	return "object " + object
}

func launchLine(l Launch) string {
	p := l.Params
	return fmt.Sprintf("launch %s %d %d %d sms=%d wait_sms=%d count_sms=%d tile_tokens=%d chunk_bytes=%d rotate=%d pause_ns=%d cell_bytes=%d peer=%d",
		l.Entry, l.Grid, l.Block, l.Shared, p.SMs, p.WaitSMs, p.CountSMs, p.TileTokens, p.ChunkBytes, p.Own[0], p.Own[1], p.Own[2], p.Own[3])
}

// wipe returns the statement that fills a part of each heap with ones. Otherwise a value that a call failed to write
// would look right: the call before wrote the same value.
func (e *emulated) wipe(name string) []string {
	return []string{fmt.Sprintf("wipe %d %d", e.heap.Offset[name], len(e.part(0, name)))}
}

// run performs calls n times on all ranks, without barriers between them.
func (e *emulated) run(n int, calls ...[]string) {
	e.t.Helper()
	job := append([]string{"arena " + e.arena, fmt.Sprintf("seed %d", e.rounds+1), fmt.Sprintf("rounds %d", e.rounds)}, e.arguments()...)
	for _, c := range calls {
		job = append(job, c...)
	}
	testfile.Write(e.t, e.arena, e.mem)
	if err := e.emulation().perform(2*emulPatience, append(job, fmt.Sprintf("run %d", n))); err != nil {
		e.t.Fatal(err)
	}
	e.mem = testfile.Read(e.t, e.arena)
	e.rounds += n
	e.checkGaps()
}

func (e *emulated) emulation() *emulation {
	e.t.Helper()
	if e.process != nil {
		return e.process
	}
	p, err := e.tools.start()
	if err != nil {
		e.t.Fatal(err)
	}
	e.process = p
	e.t.Cleanup(func() {
		if err := p.close(); err != nil && !e.t.Failed() {
			e.t.Error(err)
		}
	})
	return p
}

// checkGaps: no kernel wrote to bytes between the parts of a heap.
func (e *emulated) checkGaps() {
	e.t.Helper()
	for r := range e.w.Problem.Ranks {
		for _, p := range e.heap.Parts {
			end := e.at(r, p.Name) + p.Bytes
			for i := end; i%regionAlign != 0; i++ {
				if e.mem[i] != 0 {
					e.t.Fatalf("rank %d: byte %d after the end of %s was written", r, i-end, p.Name)
				}
			}
		}
	}
}

// faultOf returns a rank's fault record, "" if it is empty.
func (e *emulated) faultOf(rank int) string {
	f := e.part(rank, "fault")
	u := func(i int) uint32 { return binary.LittleEndian.Uint32(f[i:]) }
	if u(0) == 0 {
		return ""
	}
	return fmt.Sprintf("rank %d phase %d expert %d source %d want %d got %d",
		u(4), u(8), int32(u(12)), int32(u(16)), binary.LittleEndian.Uint64(f[24:]), binary.LittleEndian.Uint64(f[32:]))
}

func (e *emulated) noFaults() {
	e.t.Helper()
	for r := range e.w.Problem.Ranks {
		if f := e.faultOf(r); f != "" {
			e.t.Fatal("a kernel gave up waiting: ", f)
		}
	}
}

func (e *emulated) poison(names ...string) {
	for r := range e.w.Problem.Ranks {
		for _, n := range names {
			set(e.part(r, n), 0xff)
		}
	}
}

func words[T int32 | uint32](b []byte) []T {
	out := make([]T, len(b)/4)
	for i := range out {
		out[i] = T(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func (e *emulated) checkDispatch(c ref.Compare) {
	e.t.Helper()
	e.noFaults()
	p := e.w.Problem
	var v kernels.Comparison
	for r := range p.Ranks {
		out := ref.Output{
			RowOffsets: words[uint32](e.part(r, PartRowOffsets)),
			ExpertIDs:  words[int32](e.part(r, PartExpertIDs)),
			SrcInfo:    words[int32](e.part(r, PartSrcInfo)),
			Experts:    words[int32](e.part(r, PartExpertIDs)),
			MaxRows:    dtype.MaxRows(p),
			Scales:     e.part(r, PartScales),
			Payload:    ref.Flat(e.part(r, PartOut), encodingOf(p).Payload),
		}
		for _, bits := range words[uint32](e.part(r, PartScaleOffsets)) {
			out.Weights = append(out.Weights, math.Float32frombits(bits))
		}
		for i := 0; i+1 < len(out.ExpertIDs) && p.Layout == ep.LayoutMasked; i += 2 {
			out.Ranges = append(out.Ranges, binary.LittleEndian.Uint64(e.part(r, PartExpertIDs)[4*i:]))
		}
		if p.Dispatch == ep.NVFP4 {
			out.ScaleOffsets = words[uint32](e.part(r, PartScaleOffsets))
		}
		v = ref.Merge(v, e.oracle.CheckDispatch(r, out, c))
	}
	if !v.OK() {
		e.t.Fatalf("dispatch: %d of %d rows wrong: %s", v.Wrong, v.Rows, v.Detail)
	}
}

func (e *emulated) checkCombine(c ref.Compare) {
	e.t.Helper()
	e.noFaults()
	var v kernels.Comparison
	for r := range e.w.Problem.Ranks {
		v = ref.Merge(v, e.oracle.CheckCombine(r, func(t int) []uint16 { return e.combined(r, t) }, c))
	}
	if !v.OK() {
		e.t.Fatalf("combine: %d of %d tokens wrong: %s", v.Wrong, v.Rows, v.Detail)
	}
}

func (e *emulated) combined(rank, i int) []uint16 {
	h := e.w.Problem.Hidden
	b := e.part(rank, PartCombined)[2*i*h:]
	row := make([]uint16, h)
	for c := range row {
		row[c] = binary.LittleEndian.Uint16(b[2*c:])
	}
	return row
}

// changed replaces values of c. In `pairs`, each name of a parameter stands before its new value.
func changed(c ep.Config, pairs ...string) ep.Config {
	for i := 0; i < len(pairs); i += 2 {
		c = c.With(pairs[i], ep.Value(pairs[i+1]))
	}
	return c
}
