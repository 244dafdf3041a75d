package epbench

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/epbench/epbench/"

// arrows lists which packages of this module each package may import, tests
// aside. An arrow that is not here is a design change: argue it in the commit
// that adds it.
var arrows = map[string][]string{
	"tune/plan":   {},
	"tune/stat":   {},
	"tune/tables": {},
	"tune/curate": {"tune/plan"},
	"tune/export": {"tune/plan"},
	"tune":        {"tune/plan", "tune/stat"},
	"workloads":   {"tune/plan", "workloads/trace"},
	"kernels":     {"tune/plan", "workloads"},
	"native":      {},

	"workloads/trace": {}, // file formats alone: knows nothing of problems
}

// layers orders the rest: a package imports only packages of lower layers, or
// its own children.
var layers = []string{
	"tune/plan tune/stat native workloads/trace",
	"workloads",
	"kernels",
	"kernels/ref kernels/formats reports tune/export tune/curate",
	"kernels/cpu kernels/cuda kernels/worker kernels/conform kernels/internal reports/text reports/chart reports/peers",
	"kernels/kernelstest tune reports/html",
	"tune/measure tune/spacefile tune/replay",
	"tune/sweep",
	"cmd",
}

type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestArrows(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, listed := arrows[name]
		for _, imp := range p.Imports {
			rest, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if listed && !slices.Contains(allowed, rest) {
				t.Errorf("%s imports %s: not among its arrows", name, rest)
			}
			if a, b := layerOf(name), layerOf(rest); b > a {
				t.Errorf("%s (layer %d) imports %s (layer %d): arrows point down", name, a, rest, b)
			}
		}
	}
}

// layerOf finds the layer of a package or of its nearest listed parent.
func layerOf(name string) int {
	best, layer := "", len(layers)
	for i, l := range layers {
		for _, entry := range strings.Fields(l) {
			if (name == entry || strings.HasPrefix(name, entry+"/")) && len(entry) > len(best) {
				best, layer = entry, i
			}
		}
	}
	return layer
}

// TestRuntimeIsStandard keeps the package that production links free of
// dependencies.
func TestRuntimeIsStandard(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./tune/plan").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		if dep != module+"tune/plan" {
			t.Errorf("tune/plan depends on %s", dep)
		}
	}
}
