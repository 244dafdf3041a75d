package declare

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
	"github.com/epbench/epbench/workloads"
)

// activationArena holds an emulated call's memory, and the statements that set pointers to this memory.
type activationArena struct {
	mem []byte
	job []string
}

// add appends data, and the statement that points a field of EpSiluArgs to the data.
func (m *activationArena) add(field string, data any) (offset int) {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, data) // slices of fixed-size values cannot fail
	offset = (len(m.mem) + 255) / 256 * 256
	m.mem = append(m.mem, make([]byte, offset-len(m.mem))...)
	m.mem = append(m.mem, b.Bytes()...)
	m.job = append(m.job, fmt.Sprintf("ptr 0 silu.%s %d", field, offset))
	return offset
}

const activationPoison = 0xa5

type activated struct {
	workload    *workloads.Workload
	oracle      *ref.Oracle
	how         ref.Activation
	in          []uint16
	out, scales []byte
	maxRows     int
}

// drawEnded draws a routing in which some experts get no row, but the last expert gets at least one.
func drawEnded(t *testing.T, p ep.Problem) (*workloads.Workload, *ref.Oracle) {
	t.Helper()
	for seed := range uint64(1000) {
		w, err := workloads.Draw("zipf:1.5", p, seed)
		if err != nil {
			t.Fatal(err)
		}
		oracle := ref.New(w, 1)
		groups := oracle.Dispatch(0).Groups
		if p.Tokens == 0 || groups[len(groups)-1].Rows() > 0 {
			return w, oracle
		}
	}
	t.Fatal("no seed gives rows to the last expert")
	return nil, nil
}

func newActivated(t *testing.T, p ep.Problem, how ref.Activation) *activated {
	t.Helper()
	w, oracle := drawEnded(t, p)
	x := &activated{workload: w, oracle: oracle, how: how}
	end, l := x.oracle.Dispatch(0).End, encodingOf(p)
	x.maxRows = end + 4
	x.in = make([]uint16, x.maxRows*2*p.Hidden)
	for row := range end {
		w.Gates(0, row, x.in[row*2*p.Hidden:][:2*p.Hidden])
	}
	x.out = bytes.Repeat([]byte{activationPoison}, x.maxRows*l.Payload)
	x.scales = bytes.Repeat([]byte{activationPoison}, dtype.OutputScaleBytes(l, dtype.Groups(p), x.maxRows))
	return x
}

func (x *activated) check() error {
	l, end := x.oracle.Encoding(), x.oracle.Dispatch(0).End
	v := x.oracle.CheckActivation(0, ref.Activated{MaxRows: x.maxRows, Payload: ref.Flat(x.out, l.Payload), Scales: x.scales,
		Beyond: x.out[end*l.Payload:], Poison: activationPoison}, x.how, 0)
	if !v.OK() || v.Rows == 0 && end > 0 {
		return fmt.Errorf("%+v", v)
	}
	return nil
}

func (x *activated) emulate(t *testing.T, tools *emulator, c ep.Config) {
	t.Helper()
	f, p, d := fusedSilu(), x.workload.Problem, x.oracle.Dispatch(0)
	u, err := f.Unit(p, c)
	if err != nil {
		t.Fatal(err)
	}
	object, err := tools.compile(u.Source, u.Defines)
	if err != nil {
		t.Fatal(err)
	}
	inputScales := make([]float32, len(d.Groups))
	for g := range inputScales {
		inputScales[g] = workloads.ActivationScale(g)
	}
	var m activationArena
	m.add("in", x.in)
	out, scales := m.add("out", x.out), m.add("scales", x.scales)
	m.add("row_offsets", d.RowOffsets)
	m.add("input_scales", inputScales)
	m.add("scale_offsets", d.ScaleOffsets)
	arena := filepath.Join(t.TempDir(), "arena")
	testfile.Write(t, arena, m.mem)
	job := append([]string{"object " + object, "arena " + arena, "ranks 1"}, m.job...)
	job = append(job, fmt.Sprintf("set 0 silu.max_rows %d", x.maxRows), fmt.Sprintf("set 0 silu.groups %d", len(d.Groups)))
	if c := x.how.Clamp; c != nil {
		job = append(job, fmt.Sprintf("fset 0 silu.limit %g", c.Limit), fmt.Sprintf("fset 0 silu.alpha %g", c.Alpha))
	}
	l := f.Launches(p, c)[0]
	if err := tools.run(time.Minute, append(job, fmt.Sprintf("launch_silu %s %d %d 0", l.Entry, l.Grid, l.Block), "run 1")); err != nil {
		t.Fatal(err)
	}
	m.mem = testfile.Read(t, arena)
	copy(x.out, m.mem[out:])
	copy(x.scales, m.mem[scales:])
}

// activationProblem returns a small problem. A warp computes 256 columns at a time. The 384
// columns of the problem are no multiple of them.
func activationProblem(d ep.DType, tokens int) ep.Problem {
	return ep.Problem{Op: ep.Activation, Mode: ep.Graph, Ranks: 1, Nodes: 1, Hidden: 384, Experts: 40, TopK: 2,
		Tokens: tokens, MaxTokens: max(tokens, 1), Dispatch: d, Combine: ep.BF16}
}

func activationConfig(t *testing.T, p ep.Problem, changes map[string]ep.Value) ep.Config {
	t.Helper()
	f := fusedSilu()
	c := f.Kernel.DefaultConfig(h200, p).With("sms", "3").With("threads", "64")
	for _, name := range []string{"in_flight", "columns", "clamp"} {
		if v, ok := changes[name]; ok {
			c = c.With(name, v)
		}
	}
	if err := f.Check(h200, p, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestActivationsEmulated: fused_silu gives the oracle's values in every dtype, with each parameter changed, and
// without tokens.
func TestActivationsEmulated(t *testing.T) {
	emulator := need(t, emulTools)
	for _, d := range ep.DTypes() {
		for i, changes := range []map[string]ep.Value{
			{}, {"in_flight": "2"}, {"in_flight": "4", "columns": "interleaved"}, {"clamp": "gpt-oss"},
		} {
			for _, tokens := range []int{0, 5, 90} {
				t.Run(fmt.Sprint(d, "/", i, "/", tokens), func(t *testing.T) {
					t.Parallel()
					p := activationProblem(d, tokens)
					c := activationConfig(t, p, changes)
					x := newActivated(t, p, ref.ActivationOf(c))
					x.emulate(t, emulator, c)
					if err := x.check(); err != nil {
						t.Errorf("%s: %v", c.Key(), err)
					}
				})
			}
		}
	}
}

// TestActivationJudged: the check finds wrong bytes in elements, scales, padding and after the last row.
func TestActivationJudged(t *testing.T) {
	emulator := need(t, emulTools)
	p := activationProblem(ep.NVFP4, 20)
	c := activationConfig(t, p, nil)
	x := newActivated(t, p, ref.ActivationOf(c))
	x.emulate(t, emulator, c)
	d, l := x.oracle.Dispatch(0), x.oracle.Encoding()
	last := len(d.Groups) - 1
	for name, b := range map[string]*byte{
		"an element":           &x.out[3*l.Payload],
		"a scale":              &x.scales[0],
		"a row after the last": &x.out[d.End*l.Payload+1],
		"padding":              &x.scales[ref.ScaleAt(l, 0, 0, d.Groups[last].Rows()|1, int(d.RowOffsets[last]/128+d.ScaleOffsets[last]), x.maxRows)],
	} {
		old := *b
		*b ^= 0x47
		if err := x.check(); err == nil {
			t.Errorf("%s was changed, and the check did not notice", name)
		}
		*b = old
	}
	if err := x.check(); err != nil {
		t.Error(err)
	}
}

// TestInterleavedEqualsPlain: the outputs of the interleaved kernel and of the plain kernel are equal bit for bit.
func TestInterleavedEqualsPlain(t *testing.T) {
	emulator := need(t, emulTools)
	for _, d := range ep.DTypes() {
		p := activationProblem(d, 9)
		plain, mixed := activationConfig(t, p, nil), activationConfig(t, p, map[string]ep.Value{"columns": "interleaved"})
		x, y := newActivated(t, p, ref.ActivationOf(plain)), newActivated(t, p, ref.ActivationOf(mixed))
		n := p.Hidden
		for at := 0; at < len(x.in); at += 2 * n {
			for c := range n {
				y.in[at+2*c], y.in[at+2*c+1] = x.in[at+c], x.in[at+n+c]
			}
		}
		x.emulate(t, emulator, plain)
		y.emulate(t, emulator, mixed)
		if !bytes.Equal(x.out, y.out) || !bytes.Equal(x.scales, y.scales) {
			t.Errorf("%s: outputs or scales differ", d)
		}
	}
}
