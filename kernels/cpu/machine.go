package cpu

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

func machine() ep.Machine {
	return ep.Machine{
		Backend: "cpu",
		Name:    field("/proc/cpuinfo", "model name", runtime.GOOS+" "+runtime.GOARCH),
		Arch:    runtime.GOARCH,
		SMs:     runtime.GOMAXPROCS(0),
		Memory:  memory(),
		Link:    "shared-memory",
	}
}

// memory returns the host's bytes of memory, 0 if unknown.
func memory() int64 {
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal", "0 kB"), "%d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}

func field(path, name, missing string) string {
	f, err := os.Open(path)
	if err != nil {
		return missing
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return missing
}
