package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/embedded"
	"github.com/epbench/epbench/workloads"
)

// TestEmbeddedTablesAnswerPresets: each embedded table answers each preset with a legal config. The table of 2 H100 has
// only FP8, up to 2,048 tokens.
func TestEmbeddedTablesAnswerPresets(t *testing.T) {
	set, err := table.Open(table.Locations{Embedded: embedded.FS()})
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range set.Sources() {
		header := src.Table.Header
		// With the table's own ABI no row counts as old.
		host := table.Host{Machine: header.Machine, ABI: header.ABI, Check: legality(header.Machine)}
		for _, preset := range workloads.Presets() {
			if preset.Name == "demo" {
				continue
			}
			own := false
			formats, counts := []ep.DType{ep.BF16, ep.FP8}, []int{1, 7, 8, 100, 128, 1000, 2048, 5000, 8192}
			if strings.Contains(src.Name, "h100x2") {
				formats, counts = formats[1:], counts[:7]
			}
			for _, f := range formats {
				p := preset.Problem(header.Machine.GPUs)
				p.Mode, p.Dispatch = ep.Graph, f
				own = answersAll(t, src.Table, host, p, counts) || own
			}
			if !own && header.Machine.GPUs == 4 {
				t.Errorf("%s: the table has no row of this shape", preset.Name)
			}
		}
	}
}

// answersAll looks up all classes. `own` reports whether some answer has the problem's own shape.
func answersAll(t *testing.T, tab *table.Table, host table.Host, p ep.Problem, counts []int) (own bool) {
	p.Tokens, p.MaxTokens = 0, 8192
	if p.Validate() != nil {
		return false
	}
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		for _, results := range []ep.Precision{ep.Full, ep.Reduced} {
			p.Op, p.Precision = op, results
			r := tab.Resolve(host, p)
			for _, class := range ep.Classes() {
				for _, tokens := range counts {
					a := r.Lookup(tokens, class)
					own = own || a.Reason == table.Exact
					if a.Reason != table.Exact && a.Reason != table.Fallback && a.Reason != table.Kept {
						t.Errorf("%s, %d tokens, %s: %s", table.KeyOf(p, class), tokens, class, a.Reason)
					}
				}
			}
		}
	}
	return own
}

// TestEmbeddedRowsOfTheseKernels: look-ups for DeepSeek-V3 on two H200 find exact rows.
func TestEmbeddedRowsOfTheseKernels(t *testing.T) {
	tab, err := table.LoadFile(filepath.Join("..", "..", "tune", "table", "embedded", "data", "h200x2.json"), false)
	if err != nil {
		t.Fatal(err)
	}
	m := tab.Header.Machine
	host := table.Host{Machine: m, ABI: declare.ABI(), Check: legality(m)}
	preset, err := workloads.FindPreset("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []ep.DType{ep.BF16, ep.FP8} {
		for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
			p := preset.Problem(m.GPUs)
			p.Mode, p.Dispatch, p.Op, p.MaxTokens = ep.Graph, d, op, 8192
			r := tab.Resolve(host, p)
			for _, tokens := range []int{1, 8, 128, 1000, 8192} {
				for _, class := range []ep.Class{ep.Even, ep.AllRoutings} {
					if a := r.Lookup(tokens, class); a.Reason != table.Exact {
						t.Errorf("%s %s, %d tokens, %s: %s", op, d, tokens, class, a.Reason)
					}
				}
			}
		}
	}
}

// TestEmbeddedRowsAnswer: this build has each row's kernels with the row's revision, and the row's config is legal. If
// the test fails for a row, delete this row from the table.
func TestEmbeddedRowsAnswer(t *testing.T) {
	set, err := table.Open(table.Locations{Embedded: embedded.FS()})
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range set.Sources() {
		header := src.Table.Header
		m := header.Machine
		host := table.Host{Machine: m, ABI: declare.ABI()}
		spell, check := current(m), legality(m)
		for i, r := range src.Table.Rows {
			if !host.Accepts(header, r) {
				t.Errorf("%s#%d: no kernels of the revision %s", src.Name, i+1, header.Build(r))
			}
			for _, tokens := range []int{r.Lo, r.Hi} {
				if c := spell(r.Config); !r.Config.IsDefault() && check(m, r.Key.Problem(tokens), c) != nil {
					t.Errorf("%s#%d at %d tokens: %v", src.Name, i+1, tokens, check(m, r.Key.Problem(tokens), c))
				}
			}
		}
	}
}
