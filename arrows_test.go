package epbench

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/epbench/epbench/"

// arrows lists this module's packages and the imports that each may have, except in tests. A commit that adds an import
// gives the reason.
var arrows = map[string]string{
	// Packages for production import only the standard library and each other.
	"tune/ep":             "",
	"tune/table":          "tune/ep tune/table/internal/strictjson",
	"tune/table/embedded": "",
	"tune/table/curate":   "tune/ep tune/table",
	"tune/table/export":   "tune/ep tune/table",

	// Checks of files that are read.
	"tune/table/internal/strictjson": "",
	"tune/bounded":                   "",

	"tune/record": "tune/ep tune/bounded",
	"tune/stat":   "tune/ep tune/record",

	// Search measures nothing.
	"tune/search":           "tune/ep tune/record tune/stat",
	"tune/search/exchange":  "tune/bounded tune/ep",
	"tune/search/replay":    "tune/ep tune/record tune/search tune/search/exchange tune/stat",
	"tune/search/spacefile": "tune/ep tune/search",

	// A backend opens a workload, so kernels may import workloads. A workload counts bytes, so workloads may import
	// kernels/dtype.
	"workloads":       "tune/ep workloads/trace kernels/dtype",
	"workloads/trace": "tune/bounded tune/ep",
	"kernels":         "tune/ep workloads",
	"kernels/dtype":   "tune/ep",
	"kernels/ref":     "tune/ep workloads kernels kernels/dtype",
	"kernels/cpu":     "tune/ep workloads kernels kernels/dtype kernels/ref kernels/cpu/vec",
	"kernels/cpu/vec": "",

	// A program without a driver links only declare and pack.
	"kernels/cuda/sources": "tune/ep native",
	"kernels/cuda/declare": "tune/ep kernels kernels/dtype kernels/ref kernels/cuda/sources",
	"kernels/cuda/compile": "tune/ep kernels kernels/cuda/declare kernels/cuda/sources kernels/cuda/nvrtc kernels/cuda/shmem",
	"kernels/cuda/drive":   "tune/ep workloads kernels kernels/dtype kernels/ref kernels/cuda/declare kernels/cuda/sources kernels/cuda/compile kernels/cuda/shmem",
	"kernels/cuda/pack":    "tune/ep tune/table tune/bounded kernels kernels/dtype kernels/cuda/declare kernels/cuda/sources",
	"kernels/cuda/nvrtc":   "",
	"kernels/cuda/shmem":   "",

	"kernels/worker":      "tune/ep workloads kernels kernels/ref",
	"kernels/conform":     "tune/ep workloads kernels",
	"kernels/model":       "tune/ep workloads kernels",
	"kernels/kernelstest": "tune/ep kernels kernels/conform",
	"native":              "",
	"native/epcomm":       "tune/ep",
	"native/epcomm/gpu":   "",
	"native/mutation":     "",

	"tune/sweep":         "tune/ep tune/table tune/record tune/stat tune/search tune/search/spacefile tune/sweep/measure workloads kernels",
	"tune/sweep/measure": "tune/ep tune/record tune/stat tune/search workloads kernels",
	"tune/sweep/receipt": "tune/ep tune/table tune/record tune/sweep",

	// Reports import neither search nor measurement.
	"reports":         "tune/ep tune/table tune/record tune/stat",
	"reports/text":    "reports",
	"reports/live":    "reports tune/ep tune/record tune/stat",
	"reports/chart":   "tune/ep tune/record tune/stat reports workloads",
	"reports/html":    "tune/ep tune/table tune/record reports reports/chart",
	"reports/engines": "reports tune/ep tune/table",
	"reports/predict": "tune/ep tune/record reports workloads kernels/dtype kernels/model",
	"reports/peers":   "tune/ep tune/record tune/bounded kernels/dtype",

	"examples/runtime": "tune/ep tune/table tune/table/embedded",
	"docs":             "",
	"docs/workloads":   "",

	"tune/testfile":  "tune/ep",
	"tune/processor": "",

	"examples": "",
}

func isCommand(name string) bool { return strings.HasPrefix(name, "cmd/") }

type pkg struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "cuda,nvrtc", "-json=ImportPath,Imports", "./...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
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
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name, ok := strings.CutPrefix(p.ImportPath, module)
		if !ok || isCommand(name) {
			continue
		}
		seen[name] = true
		allowed, listed := arrows[name]
		if !listed {
			t.Errorf("%s is not in the list of arrows: add a line with what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if rest, ours := strings.CutPrefix(imp, module); ours && !slices.Contains(strings.Fields(allowed), rest) {
				t.Errorf("%s imports %s: not among its arrows", name, rest)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arrows)) {
		if !seen[name] {
			t.Errorf("%s is in the list of arrows and nowhere else", name)
		}
	}
}

// TestRuntimeIsStandard: packages of production import only the standard library and each other.
func TestRuntimeIsStandard(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./tune/table", "./tune/table/embedded").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		name, ours := strings.CutPrefix(dep, module)
		if !ours || name != "tune/ep" && name != "tune/table" && !strings.HasPrefix(name, "tune/ep/") && !strings.HasPrefix(name, "tune/table/") {
			t.Errorf("tune/table depends on %s", dep)
		}
	}
}
