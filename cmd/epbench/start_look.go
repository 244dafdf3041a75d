package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/ep"
)

type surroundings struct {
	GPUs    int               `json:"gpus"`
	Machine ep.Machine        `json:"machine"` // zero if epbench-cuda does not answer
	NoGPU   string            `json:"no_gpu"`  // why Machine is zero
	Python  string            `json:"python"`  // path of the interpreter
	Modules map[string]string `json:"modules"` // package and version by module
	Elastic string            `json:"elastic"` // path of DeepEP V2's ElasticBuffer
	Worker  string            `json:"worker"`  // path of the worker for Python libraries
	Packs   []string          `json:"packs"`   // packs that epcomm would use
}

var modules = []string{"torch", "deep_ep", "flashinfer", "sglang", "vllm"}

// lookAround examines this machine. Tests replace this function.
var lookAround = func(cmd *cobra.Command) surroundings {
	s := surroundings{Worker: findLibraryWorker(), Packs: findPacks()}
	devices, _ := filepath.Glob("/dev/nvidia[0-9]*") // the only error is a bad pattern
	s.GPUs = len(devices)
	if s.NoGPU = missingCUDA(); s.NoGPU == "" {
		s.openGPUs(cmd.Context())
	}
	s.askPython(cmd.Context())
	return s
}

func (s *surroundings) openGPUs(ctx context.Context) {
	b, err := openCUDA(ctx, "")
	if err != nil {
		s.NoGPU = err.Error()
		return
	}
	defer b.Close()
	s.Machine = b.Machine()
	s.GPUs = s.Machine.GPUs
}

// askModules is a Python program that describes modules without importing them. A package may have another name than
// its module: sgl-deep-ep contains deep_ep.
const askModules = `
import importlib.metadata, importlib.util, json, os, sys
found, elastic, of = {}, "", importlib.metadata.packages_distributions()
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    if spec:
        found[name] = " ".join(d + " " + importlib.metadata.version(d) for d in sorted(set(of.get(name, [])))) or "installed"
    if spec and name == "deep_ep":
        files = [os.path.join(folder, "buffers", "elastic.py") for folder in spec.submodule_search_locations or []]
        elastic = next(filter(os.path.exists, files), "")
print(json.dumps({"python": sys.executable, "modules": found, "elastic": elastic}))
`

func (s *surroundings) askPython(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", append([]string{"-c", askModules}, modules...)...).Output()
	var answer struct {
		Python  string
		Modules map[string]string
		Elastic string
	}
	if err != nil || json.Unmarshal(out, &answer) != nil {
		return
	}
	s.Python, s.Modules, s.Elastic = answer.Python, answer.Modules, answer.Elastic
}

// findLibraryWorker returns the path of the worker for Python libraries, or "".
func findLibraryWorker() string {
	self, _ := os.Executable() // without it, only the current directory is searched
	bin := filepath.Dir(self)
	for _, pattern := range []string{
		filepath.Join(bin, "../lib/python3*/*-packages/epbench/workers/worker.py"),
		filepath.Join(bin, "../epbench/workers/worker.py"), // pip install --target
		filepath.Join(bin, "../native/python/workers/worker.py"),
		"native/python/workers/worker.py",
	} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// findPacks lists the packs in EPCOMM_PACKS and in epcomm's cache.
func findPacks() []string {
	var out []string
	for _, place := range append(strings.Split(os.Getenv("EPCOMM_PACKS"), ":"), packCache()) {
		if place == "" {
			continue
		}
		if info, err := os.Stat(place); err == nil && !info.IsDir() {
			out = append(out, place)
			continue
		}
		found, _ := filepath.Glob(filepath.Join(place, "*.pack"))
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
