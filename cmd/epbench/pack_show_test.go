package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

// TestPackShow: pack show prints the reason of each answer, and only the kernels that the pack launches.
func TestPackShow(t *testing.T) {
	p := packFrom(t, "h200x2", 128, ep.FP8)
	path := filepath.Join(t.TempDir(), "a.pack")
	testfile.Write(t, path, p.Data)
	var out bytes.Buffer
	if code := run(t.Context(), []string{"pack", "show", path, "--width", "80"}, &out, &out); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	text := out.String()
	if !strings.Contains(text, "\nwhy ") || strings.Contains(text, "this width: dispatch, why") {
		t.Errorf("the reasons of the answers are missing:\n%s", text)
	}
	for _, never := range []string{"combine_rank=", "fused_silu="} {
		if strings.Contains(text, never) {
			t.Errorf("the pack does not launch %s, but pack show prints it\n%s", never, text)
		}
	}
	if !strings.Contains(text, "dispatch_ll=") {
		t.Errorf("a kernel of the pack is missing:\n%s", text)
	}
}

func packFrom(t *testing.T, name string, maxTokens int, dtypes ...ep.DType) *pack.Pack {
	t.Helper()
	from := sourceFlags{embedded: true}
	set, err := from.open()
	if err != nil {
		t.Fatal(err)
	}
	r := pack.Request{DTypes: dtypes, Tables: set, ABI: declare.ABI(),
		Problem: ep.Problem{Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, MaxTokens: maxTokens}}
	for _, s := range set.Sources() {
		if sourceName(s) == name {
			r.Machine = s.Table.Header.Machine
		}
	}
	p, err := pack.Build(r, func(_ string, units []sources.Unit) (pack.Compiled, error) {
		return pack.Compiled{Cubins: bytes.SplitAfter(bytes.Repeat([]byte("x\n"), len(units)), []byte("\n"))[:len(units)]}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPackMemory: a pack's dtypes and kernels share memory, which stays below a limit. The areas add up to the total.
func TestPackMemory(t *testing.T) {
	for table, most := range map[string][2]float64{
		"h100x2": {2, 4},
		"h200x2": {2.45, 4.9}, // combine_final needs more: it does not share memory with other combines
	} {
		p := packFrom(t, table, 4096, ep.FP8, ep.BF16)
		for i, gib := range most {
			if got := float64(p.HeapBytes(i+1)) / (1 << 30); got > gib {
				t.Errorf("%s: %.2f GiB with %d calls in flight, want at most %.2f", table, got, i+1, gib)
			}
		}
		var sum uint64
		for _, a := range p.Areas() {
			sum += a.Bytes
			t.Logf("%s: %s for %s", table, mebibytes(int64(a.Bytes)), a.For)
		}
		if slot := p.HeapBytes(1) - p.HeapBytes(0); int64(sum) != slot {
			t.Errorf("%s: the areas have %d bytes together, but a call in flight has %d", table, sum, slot)
		}
	}
}
