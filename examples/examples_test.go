// Package examples holds small complete programs in its folders. These tests build and run them.
package examples

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/export"
	"github.com/epbench/epbench/tune/testfile"
)

// sealed returns the examples' table. With its rows, each example prints the text `want`.
func sealed(t *testing.T) *table.Table {
	t.Helper()
	day := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	row := func(c ep.Class, lo, hi int, threads ep.Value) table.Row {
		return table.Row{Lo: lo, Hi: hi, Config: ep.Config{Kernel: "direct"}.With("blocks", threads),
			Key: table.Key{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 512, Experts: 32, TopK: 4,
				Dispatch: ep.BF16, Combine: ep.BF16, Routing: c},
			Evidence: table.Evidence{Date: day}}
	}
	keep := row(ep.Even, 1, 8, "1")
	keep.Default, keep.Config = true, ep.Config{}
	tab := &table.Table{Schema: table.Schema, Rows: []table.Row{keep, row(ep.Even, 9, 64, "2"), row(ep.Skewed, 1, 64, "3"), row(ep.AllRoutings, 1, 64, "4")},
		Header: table.Header{Created: day, ABI: "abi", Machine: ep.Machine{Backend: "cpu", SMs: 2}, Fallback: []string{"routing"}}}
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	return tab
}

const want = `1 tokens, even: default (kept)
16 tokens, even: direct:blocks=2 (exact)
16 tokens, skewed: direct:blocks=3 (exact)
64 tokens, hot-rank: direct:blocks=4 (fallback)
4000 tokens, even: default (uncovered)
`

func exported(t *testing.T, language string) string {
	t.Helper()
	e, err := export.Find(language)
	if err != nil {
		t.Fatal(err)
	}
	files, err := e.Files(sealed(t), "tuned")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		testfile.Write(t, filepath.Join(dir, f.Name), f.Data)
	}
	return dir
}

func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("%s is not installed", tool)
	}
	return path
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func TestGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.json")
	if err := record.WriteFile(path, sealed(t)); err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(t.TempDir(), "machine.json")
	head := sealed(t).Header
	text, err := json.Marshal(map[string]any{"machine": head.Machine, "abi": head.ABI})
	if err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, here, text)
	if got := output(t, exec.Command("go", "run", "./runtime", path, here)); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestC(t *testing.T) {
	gcc, dir := need(t, "gcc"), exported(t, "c")
	bin := filepath.Join(dir, "serve")
	library, err := filepath.Glob("../native/epcomm/src/*.c")
	if err != nil || len(library) == 0 {
		t.Fatal("native/epcomm/src: ", err)
	}
	build := []string{"-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I", dir, "-I", "../native/epcomm/include",
		"-I", "../native/epcomm/src", "-I", "../native/include", "-o", bin, "runtime-c/main.c"}
	output(t, exec.Command(gcc, append(append(build, library...), "-ldl", "-lpthread", "-lm")...))
	if got := output(t, exec.Command(bin, sealed(t).Header.Machine.Key(), "abi")); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := output(t, exec.Command(bin, "cuda/10de:2335/sm_90", "abi")); !strings.Contains(got, "refused, everything is default: machine") {
		t.Errorf("on another machine it prints\n%s", got)
	}
}

func TestPython(t *testing.T) {
	python, dir := need(t, "python3"), exported(t, "python")
	run := func(args ...string) string {
		cmd := exec.Command(python, append([]string{"runtime-python/main.py"}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
		return output(t, cmd)
	}
	if got := run(sealed(t).Header.Machine.Key(), "abi"); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := run("cuda/10de:2335/sm_90", "abi"); !strings.Contains(got, "refused, everything is default: machine") {
		t.Errorf("on another machine it prints\n%s", got)
	}
}

// TestPagesGo vets the Go code in the pages of docs.
func TestPagesGo(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	blocks := 0
	for _, page := range pages {
		text := testfile.Read(t, page)
		for _, block := range strings.Split(string(text), "\n```go\n")[1:] {
			code, _, _ := strings.Cut(block, "\n```")
			source := filepath.Join(t.TempDir(), "page.go")
			head := "package main\n\nimport (\n\t\"github.com/epbench/epbench/tune/ep\"\n\t\"github.com/epbench/epbench/tune/table\"\n)\n\nfunc main() {}\n\n"
			testfile.Write(t, source, head+code+"\n")
			output(t, exec.Command("go", "vet", source))
			blocks++
		}
	}
	if blocks == 0 {
		t.Error("no page has Go code")
	}
}
