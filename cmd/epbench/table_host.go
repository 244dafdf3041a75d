package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// host returns the host of --machine: the last table's machine ("table"), this machine ("host"), or that of a file.
func (f *queryFlags) host(cmd *cobra.Command, set *table.Set) (h table.Host, err error) {
	sources := set.Sources()
	choice := f.machine
	if choice == "" {
		choice = "host"
		if f.file != "" {
			choice = "table"
		}
	}
	switch choice {
	case "table":
		if len(sources) == 0 {
			return h, usagef("--machine table: there is no table; use --machine host")
		}
		// Check stays nil: the table may have kernels that this build lacks.
		return hostOfTable(sources[len(sources)-1].Table.Header), nil
	case "host":
		h, err = f.thisHost(cmd)
	default:
		h, err = readHost(choice)
	}
	h.Check, h.Current = legality(h.Machine), current(h.Machine)
	return h, err
}

func hostOfTable(h table.Header) table.Host {
	return table.Host{Machine: h.Machine, ABI: h.ABI, Hooks: h.Hooks, Current: current(h.Machine)}
}

func (f *queryFlags) thisHost(cmd *cobra.Command) (table.Host, error) {
	b, err := backendOf(cmd, f.backend)
	if err != nil {
		return table.Host{}, err
	}
	defer b.Close()
	return hostOf(b), nil
}

func hostOf(b kernels.Backend) table.Host {
	h := table.Host{Machine: b.Machine()}
	if v, ok := b.(kernels.Versioned); ok {
		h.ABI = v.ABI()
	}
	return h
}

const maxHostBytes = 64 << 20

// readHost reads a machine from a run.json, a table.json, or a file that holds only a machine.
func readHost(path string) (table.Host, error) {
	info, err := os.Stat(path)
	if err != nil {
		return table.Host{}, badMachine(path, err)
	}
	if info.Size() > maxHostBytes {
		return table.Host{}, usagef("--machine: %s is larger than %d MiB", path, maxHostBytes>>20)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return table.Host{}, badMachine(path, err)
	}
	type named struct {
		Machine ep.Machine `json:"machine"`
		ABI     ep.ABI     `json:"abi"`
	}
	var doc struct {
		named
		Header named `json:"header"`
		ep.Machine
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		return table.Host{}, usagef("--machine: %s: %w; give a run.json or a table.json", path, err)
	}
	for _, n := range []named{doc.named, doc.Header, {Machine: doc.Machine}} {
		if n.Machine.Backend != "" {
			return table.Host{Machine: n.Machine, ABI: n.ABI}, nil
		}
	}
	return table.Host{}, usagef("--machine: %s names no machine; give a run.json or a table.json", path)
}

func badMachine(path string, err error) error {
	return usagef("--machine: %w", ep.FileError(path, err, "give table, host, a run.json or a table.json"))
}

// current returns a function that brings a config of an earlier build up to date with the kernels of this build. For an
// unknown backend it returns nil.
func current(m ep.Machine) func(ep.Config) ep.Config {
	known := knownKernels(m.Backend)
	if known == nil {
		return nil
	}
	return func(c ep.Config) ep.Config { return kernels.Current(known, c) }
}

// legality returns a check of configs against a backend's kernels, or nil for an unknown backend.
func legality(m ep.Machine) func(ep.Machine, ep.Problem, ep.Config) error {
	known := knownKernels(m.Backend)
	if known == nil {
		return nil
	}
	return legalAmong(known)
}

// ofKnownKernels returns the check of legality for configs of known kernels. The check accepts every config of an
// unknown kernel.
func ofKnownKernels(m ep.Machine) func(ep.Machine, ep.Problem, ep.Config) error {
	known := knownKernels(m.Backend)
	if known == nil {
		return nil
	}
	judge := legalAmong(known)
	return func(m ep.Machine, p ep.Problem, c ep.Config) error {
		if _, err := kernels.Find(known, p.Op, kernels.Current(known, c).Kernel); err != nil {
			return nil
		}
		return judge(m, p, c)
	}
}

func legalAmong(known []kernels.Kernel) func(ep.Machine, ep.Problem, ep.Config) error {
	return func(m ep.Machine, p ep.Problem, c ep.Config) error {
		c = kernels.Current(known, c)
		k, err := kernels.Find(known, p.Op, c.Kernel)
		if err != nil {
			return err
		}
		// Making the default config takes long, so it is made only if a parameter can change the precision.
		if p.Precision == ep.Full && slices.ContainsFunc(k.Params, func(q kernels.Param) bool { return q.Class == kernels.Precision }) {
			if name := k.Changes(kernels.Precision, k.DefaultConfig(m, p), c); name != "" {
				return fmt.Errorf("%s: %s changes results, and precision is full; see --precision", name, c.Values[name])
			}
		}
		return k.Check(m, p, c)
	}
}
