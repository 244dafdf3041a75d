package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// activationArena is the memory of one emulated call and where its parts lie.
type activationArena struct {
	mem []byte
	job []string
}

func (m *activationArena) add(field string, data any) (offset int) {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, data) // slices of fixed-size values cannot fail
	offset = (len(m.mem) + 255) / 256 * 256
	m.mem = append(m.mem, make([]byte, offset-len(m.mem))...)
	m.mem = append(m.mem, b.Bytes()...)
	m.job = append(m.job, fmt.Sprintf("ptr 0 silu.%s %d", field, offset))
	return offset
}

// emulateActivation runs a call and puts its outputs back into x.
func emulateActivation(t *testing.T, tools *emulator, a activation, x *activated, grid int) {
	t.Helper()
	object, err := tools.compile(a.source, a.defines(x.columns, 64))
	if err != nil {
		t.Fatal(err)
	}
	var m activationArena
	m.add("in", x.in)
	out, scales := m.add("out", x.out), m.add("scales", x.scales)
	m.add("row_offsets", x.rowOffsets)
	m.add("input_scales", x.inputScales)
	m.add("scale_offsets", x.scaleOffsets)
	arena := filepath.Join(t.TempDir(), "arena")
	if err := os.WriteFile(arena, m.mem, 0o600); err != nil {
		t.Fatal(err)
	}
	job := append([]string{"object " + object, "arena " + arena, "ranks 1"}, m.job...)
	job = append(job, fmt.Sprintf("set 0 silu.max_rows %d", x.maxRows), fmt.Sprintf("set 0 silu.groups %d", len(x.inputScales)))
	if c := a.how.Clamp; c != nil {
		job = append(job, fmt.Sprintf("fset 0 silu.limit %g", c.Limit), fmt.Sprintf("fset 0 silu.alpha %g", c.Alpha))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tools.run(ctx, append(job, fmt.Sprintf("launch_silu %s %d 64 0", a.entry, grid), "run 1")); err != nil {
		t.Fatal(err)
	}
	if m.mem, err = os.ReadFile(arena); err != nil {
		t.Fatal(err)
	}
	copy(x.out, m.mem[out:])
	copy(x.scales, m.mem[scales:])
}

func TestActivationsEmulated(t *testing.T) {
	emulator := need(t, emulTools)
	for _, a := range activations() {
		t.Run(a.name(), func(t *testing.T) {
			t.Parallel()
			for i, rows := range [][]int{{5, 0, 3, 0}, {0}, {130, 1}} {
				columns := a.tile * 5
				x := newActivated(a, columns, 140, rows, activationValues(uint64(i)))
				emulateActivation(t, emulator, a, x, 3)
				if err := x.check(a); err != nil && !(rows[0] == 0 && len(rows) == 1) {
					t.Errorf("rows %v: %v", rows, err)
				}
			}
		})
	}
}

// The interleaved kernel is the plain one with its input's columns permuted,
// bit for bit.
func TestInterleavedEqualsPlain(t *testing.T) {
	emulator := need(t, emulTools)
	byEntry := map[string]activation{}
	for _, a := range activations() {
		if a.dtype == ep.NVFP4 {
			byEntry[a.entry] = a
		}
	}
	const columns, rows = 192, 9
	plain, mixed := byEntry["fused_silu_nvfp4"], byEntry["fused_silu_nvfp4_interleaved"]
	x := newActivated(plain, columns, rows, []int{4, 5}, activationValues(5))
	y := newActivated(mixed, columns, rows, []int{4, 5}, activationValues(5))
	for r := range rows {
		for c := range columns {
			in := x.in[r*2*columns:]
			y.in[r*2*columns+2*c], y.in[r*2*columns+2*c+1] = in[c], in[columns+c]
		}
	}
	emulateActivation(t, emulator, plain, x, 2)
	emulateActivation(t, emulator, mixed, y, 2)
	if !bytes.Equal(x.out, y.out) || !bytes.Equal(x.scales, y.scales) {
		t.Error("outputs or scales differ")
	}
}
