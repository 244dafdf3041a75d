// Package cpu is the embedded backend. Ranks are groups of goroutines with memory
// of their own. By the protocol that GPUs use, dispatch and combine write messages
// into other ranks' receive slots, signal counts through atomic words, and poll for
// them. Nothing is modelled: the times are those of memory traffic and
// synchronisation on this host.
//
// Two things differ from a GPU. There are more workers than cores, so that a worker
// yields after every poll that finds nothing. And memory costs nothing until it is
// touched, so that receive buffers have room for the worst case of the protocol.
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

// Backend runs kernels on the host's processors.
type Backend struct {
	machine  ep.Machine
	deadline time.Duration
	faulty   func(ep.Config) fault // of a candidate; only tests set it
}

// longestWait is how long a rank waits for another before the candidate counts as
// hanging. It is far above any call that fits in memory.
const longestWait = 20 * time.Second

// Open makes the backend; it never fails.
func Open() (kernels.Backend, error) {
	return &Backend{machine: machine(), deadline: longestWait, faulty: func(ep.Config) fault { return noFault }}, nil
}

// Machine identifies this host.
func (b *Backend) Machine() ep.Machine { return b.machine }

// Kernels lists dispatch and combine.
func (b *Backend) Kernels() []kernels.Kernel { return Kernels() }

// Close has nothing to give back.
func (b *Backend) Close() error { return nil }

// Open lays out one workload. The error names what does not fit.
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

// ABI is a hash of the sources and the parameter lists: 16 hex digits.
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

// Empty times the rounds of a program that does nothing on two ranks: start
// alignment and the end of a kernel.
func (b *Backend) Empty(ctx context.Context) (map[string]float64, error) {
	return emptyRounds(ctx, b)
}
