// Package cpu is the backend that runs on the host's processors. A rank is a group of goroutines with its own memory.
// Ranks write messages into each other's memory, and poll atomic words for counts. Times are real times of this host.
package cpu

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu/vec"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

type Backend struct {
	machine  ep.Machine
	deadline time.Duration
	faulty   func(ep.Config) fault // only tests set it
}

// longestWait is the longest time for which a rank waits for another rank.
const longestWait = 20 * time.Second

// Open returns the backend. The error is always nil.
func Open() (kernels.Backend, error) {
	return &Backend{machine: machine(), deadline: longestWait, faulty: func(ep.Config) fault { return noFault }}, nil
}

func (b *Backend) Machine() ep.Machine { return b.machine }

func (b *Backend) Kernels() []kernels.Kernel { return Kernels() }

func (b *Backend) MultiSession() bool { return true }

func (b *Backend) Close() error { return nil }

// Open allocates buffers for one workload. Its error names the field that does not fit.
func (b *Backend) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := open(b, w)
	if err != nil {
		return nil, err
	}
	return s, nil
}

//go:embed *.go
var sources embed.FS

// ABI returns a hash of the sources and parameters, in 16 hex digits.
func (b *Backend) ABI() ep.ABI {
	h := sha256.New()
	for _, tree := range []embed.FS{sources, vec.Sources} {
		names, _ := fs.Glob(tree, "*")
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				text, _ := fs.ReadFile(tree, name)
				fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
			}
		}
	}
	for _, k := range Kernels() {
		text, _ := json.Marshal(k.Params)
		fmt.Fprintf(h, "%s %s\n", k.Name, text)
	}
	return ep.ABI(hex.EncodeToString(h.Sum(nil)[:8]))
}

// Empty measures the time of an empty kernel on two ranks.
func (b *Backend) Empty(ctx context.Context) (map[string]float64, error) {
	return emptyRounds(ctx, b)
}
