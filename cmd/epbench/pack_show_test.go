package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/tune/ep"
)

// TestPackShow: at 80 columns pack show prints the reason of each answer and the kernels of the
// pack. It prints no kernel that the pack does not launch.
func TestPackShow(t *testing.T) {
	from := sourceFlags{embedded: true}
	set, err := from.open()
	if err != nil {
		t.Fatal(err)
	}
	r := pack.Request{DTypes: []ep.DType{ep.FP8}, Tables: set, ABI: declare.ABI(),
		Problem: ep.Problem{Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, MaxTokens: 128}}
	for _, s := range set.Sources() {
		if sourceName(s) == "h200x2" {
			r.Machine = s.Table.Header.Machine
		}
	}
	p, err := pack.Build(r, func(_ string, units []declare.Unit) (pack.Compiled, error) { // the test does not read the binaries
		return pack.Compiled{Cubins: bytes.SplitAfter(bytes.Repeat([]byte("x\n"), len(units)), []byte("\n"))[:len(units)]}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.pack")
	if err := os.WriteFile(path, p.Data, 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"pack", "show", path, "--width", "80"}, &out, &out); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	text := out.String()
	if !strings.Contains(text, "\nwhy ") || strings.Contains(text, "this width: dispatch, why") {
		t.Errorf("no reasons:\n%s", text)
	}
	for _, never := range []string{"combine_rank=", "fused_silu="} {
		if strings.Contains(text, never) {
			t.Errorf("the pack does not launch %s, but pack show prints it\n%s", never, text)
		}
	}
	if !strings.Contains(text, "dispatch_ll_ids=") {
		t.Errorf("a kernel of the pack is missing:\n%s", text)
	}
}
