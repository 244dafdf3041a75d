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

// surroundings is what start knows of this machine.
type surroundings struct {
	GPUs    int               `json:"gpus"`
	Machine ep.Machine        `json:"machine"` // of the GPUs, zero if epbench-cuda does not answer
	NoGPU   string            `json:"no_gpu"`  // why Machine is zero
	Python  string            `json:"python"`  // path of the interpreter, or ""
	Modules map[string]string `json:"modules"` // version of each installed module
	Worker  string            `json:"worker"`  // path of the worker for libraries in Python, or ""
	Packs   []string          `json:"packs"`
}

// modules lists the Python modules that start looks for.
var modules = []string{"torch", "deep_ep", "flashinfer", "sglang", "vllm"}

// lookAround looks at this machine. Tests replace it.
var lookAround = func(cmd *cobra.Command) surroundings {
	s := surroundings{Worker: findLibraryWorker(), Packs: findPacks()}
	devices, _ := filepath.Glob("/dev/nvidia[0-9]*") // a fixed pattern
	s.GPUs = len(devices)
	if s.NoGPU = missingCUDA(); s.NoGPU == "" {
		s.openGPUs(cmd.Context())
	}
	s.Python, s.Modules = askPython(cmd.Context())
	return s
}

// openGPUs starts the GPU worker to learn the machine.
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

// askModules prints the path of the interpreter and the version of each module that it finds,
// without importing one. A module may come from a distribution of another name.
const askModules = `
import importlib.metadata, importlib.util, json, sys
found, of = {}, importlib.metadata.packages_distributions()
for name in sys.argv[1:]:
    if importlib.util.find_spec(name):
        found[name] = " ".join(d + " " + importlib.metadata.version(d) for d in sorted(set(of.get(name, [])))) or "installed"
print(json.dumps({"python": sys.executable, "modules": found}))
`

// askPython returns the interpreter on PATH and the versions of modules that it has.
func askPython(ctx context.Context) (string, map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", append([]string{"-c", askModules}, modules...)...).Output()
	var answer struct {
		Python  string
		Modules map[string]string
	}
	if err != nil || json.Unmarshal(out, &answer) != nil {
		return "", nil
	}
	return answer.Python, answer.Modules
}

// findLibraryWorker returns the worker for libraries in Python: that of the wheel whose program
// this is, or that of the repository whose bin or root this program runs in.
func findLibraryWorker() string {
	self, _ := os.Executable() // without it the repository remains
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

// findPacks lists the packs that epcomm would take: of EPCOMM_PACKS, files and folders, and of its
// cache.
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
		found, _ := filepath.Glob(filepath.Join(place, "*.pack")) // a damaged pattern finds none
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
