package declare

import (
	"bytes"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// TestCopyProbeEmulated: every row is copied once. Away rows go to the next rank; others stay.
func TestCopyProbeEmulated(t *testing.T) {
	oncePerRun(t)
	c := CopyProbe{SMs: 2, Home: 37, Away: 11, RowBytes: 3600}
	p := pairProblem(ep.BF16, 2, 256, 8, 2, 1)
	e := emulate(t, emulWorkload(p, []int{1}, 0, 0, 7), c.State(), 1)
	half := c.rows() * c.RowBytes
	for r := range p.Ranks {
		area := e.part(r, "copy.area")
		for i := range half {
			area[i] = byte(i*7+i>>8*13+r) | 1 // never 0: unwritten rows are 0
		}
	}
	e.run(1, []string{e.object(sources.CopySource, nil), launchLine(c.Launch())})
	row := func(rank, half, i int) []byte {
		at := (half*c.rows() + i) * c.RowBytes
		return e.part(rank, "copy.area")[at : at+c.RowBytes]
	}
	for r := range p.Ranks {
		away := 0
		for i := range c.rows() {
			home, next := bytes.Equal(row(r, 1, i), row(r, 0, i)), bytes.Equal(row(1-r, 1, i), row(r, 0, i))
			if home == next {
				t.Fatalf("rank %d row %d: at home %v, at the next rank %v", r, i, home, next)
			}
			away += Bit(next)
		}
		if away != c.Away {
			t.Errorf("rank %d: %d rows were copied to the next rank, want %d", r, away, c.Away)
		}
	}
}

// TestCopyProbeBounds: each error names the field that is out of bounds.
func TestCopyProbeBounds(t *testing.T) {
	for want, c := range map[string]CopyProbe{
		"":            {SMs: 132, Home: 1, RowBytes: 16},
		"sms: 133":    {SMs: 133, Home: 1, RowBytes: 16},
		"row-bytes: ": {SMs: 1, Home: 1, RowBytes: 24},
		"home, away:": {SMs: 1, RowBytes: 16},
	} {
		err := c.Check(132)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
