package export

import (
	"encoding/csv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func TestFindNamesTheFormats(t *testing.T) {
	if _, err := Find("rust"); err == nil || !strings.Contains(err.Error(), "use one of go, c, python, csv") {
		t.Errorf("got %v", err)
	}
}

func TestIdentifier(t *testing.T) {
	for in, want := range map[string]string{"tuned": "tuned", "H200-x8": "h200_x8", "8gpu": "table_8gpu", "": "table_", "func": "table_func", "ü": "table__"} {
		if got := identifier(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestEveryExportTakesAnEmptyTable(t *testing.T) {
	tab := drawTable(t, rand.New(rand.NewPCG(1, 1)))
	tab.Rows, tab.Header.Fallback = nil, nil
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	dir := exported(t, tab)
	t.Run("c", func(t *testing.T) {
		if got := feed(t, "0 0 8 1 7168 256 8 0 0 0 0 0 0 0 16 0 -1", exec.Command(buildC(t, dir), "parity")); got[0] != "default 4 -1 0" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("python", func(t *testing.T) {
		if got := feed(t, "0 0 8 1 7168 256 8 0 0 0 0 0 0 0 16 0 -1", pythonCommand(t, dir, "parity")); got[0] != "default 4 -1 0" {
			t.Errorf("got %q", got)
		}
	})
}

func TestCSVHasEveryRow(t *testing.T) {
	tab := drawTable(t, rand.New(rand.NewPCG(1, 2)))
	files, err := exportCSV(tab, "tuned")
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(string(files[0].Data))).ReadAll()
	if err != nil || len(records) != len(tab.Rows)+1 {
		t.Fatalf("%d records for %d rows, %v", len(records), len(tab.Rows), err)
	}
	r := tab.Rows[7]
	if got := records[8]; got[0] != string(r.Key.Op) || got[11] != string(r.Key.Routing) || got[12] != r.Key.Precision.String() || got[14] != r.Key.Layout.String() || got[18] != r.Config.Key() {
		t.Errorf("row 7 is %v, the table has %v %s", got, r.Key, r.Config.Key())
	}
}

// TestGoExportBuildsAndAnswers builds the package in a separate module, as a user would.
func TestGoExportBuildsAndAnswers(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	tab := drawTable(t, rand.New(rand.NewPCG(1, 3)))
	dir := exported(t, tab)
	r := tab.Rows[0]
	for name, text := range map[string]string{
		"go.mod": "module example.com/serve\n\ngo 1.26\n\nrequire github.com/epbench/epbench v0.0.0\n\nreplace github.com/epbench/epbench => " + root + "\n",
		"cmd/main.go": `package main

import (
	"fmt"

	"example.com/serve"
	"github.com/epbench/epbench/tune/table"
)

func main() {
	t, err := tuned.Table()
	if err != nil {
		panic(err)
	}
	host := table.Host{Machine: t.Header.Machine, ABI: tuned.ABI}
	r, err := tuned.Resolve(host, t.Rows[0].Key.Problem(64))
	if err != nil {
		panic(err)
	}
	a := r.Lookup(t.Rows[0].Lo, t.Rows[0].Key.Routing)
	fmt.Println(tuned.TableID, tuned.Rows, a.Config.Key())
}
`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, filepath.Join(dir, name), text)
	}
	sums := testfile.Read(t, filepath.Join(root, "go.sum"))
	testfile.Write(t, filepath.Join(dir, "go.sum"), sums)
	cmd := exec.Command("go", "run", "-mod=mod", "./cmd")
	cmd.Dir = dir
	flags := "GOFLAGS="
	if strings.Contains(os.Getenv("GOFLAGS"), "-trimpath") {
		flags += "-trimpath" // otherwise all imported packages would be compiled a second time
	}
	cmd.Env = append(os.Environ(), "GOPROXY=off", flags, "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(out); !strings.HasPrefix(got, tab.ID+" ") || !strings.HasSuffix(got, " "+r.Config.Key()+"\n") {
		t.Errorf("the program prints %s", got)
	}
}

func TestHeaderIsAlsoCPlusPlus(t *testing.T) {
	dir := exported(t, drawTable(t, rand.New(rand.NewPCG(1, 4))))
	cmd := exec.Command(tool(t, "g++"), "-std=c++11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
		"-x", "c++", filepath.Join(dir, "tuned.h"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPythonIsTyped(t *testing.T) {
	dir := exported(t, drawTable(t, rand.New(rand.NewPCG(1, 3))))
	for _, check := range [][]string{{"mypy", "--strict", "--cache-dir=/dev/null"}, {"ruff", "check", "--no-cache", "--isolated"}} {
		t.Run(check[0], func(t *testing.T) {
			cmd := exec.Command(tool(t, check[0]), append(check[1:], filepath.Join(dir, "tuned.py"))...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
