package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

type backendEntry struct {
	name string
	doc  string
	// open starts the backend. `arg` is the text after "name:".
	open func(ctx context.Context, arg string) (kernels.Backend, error)
	// missing returns why the backend does not work here, or "".
	missing func() string
	// known lists the kernels, also on a host without GPUs. All callers share the list and must not change it.
	known     func() []kernels.Kernel
	abi       func() ep.ABI
	onRequest bool // auto never takes it, because it needs an argument
	predicts  bool // the backend predicts times and measures nothing
}

// backendTable lists the backends in the order in which auto tries them.
var backendTable = []backendEntry{
	{
		name:    "cuda",
		doc:     "epbench's CUDA kernels, in the worker epbench-cuda; cuda:loopback runs several ranks on one GPU",
		open:    openCUDA,
		missing: missingCUDA,
		known:   sync.OnceValue(declare.Kernels),
		abi:     declare.ABI,
	},
	{
		name:    "cpu",
		doc:     "ranks are goroutines of this process: a rehearsal that runs everywhere",
		open:    func(context.Context, string) (kernels.Backend, error) { return cpu.Open() },
		missing: nothing,
		known:   sync.OnceValue(cpu.Kernels),
		abi:     (&cpu.Backend{}).ABI,
	},
	{
		name:      "exec",
		doc:       "exec:COMMAND starts your own worker; see epbench docs worker-protocol",
		open:      openExec,
		missing:   nothing,
		onRequest: true,
	},
	{
		name:      "launch",
		doc:       "launch:COMMAND starts a worker of many processes (torchrun, mpirun, sh); see epbench docs worker-protocol",
		open:      openLaunch,
		missing:   nothing,
		onRequest: true,
	},
	{
		name:      "model",
		doc:       "model:FILE predicts times for epbench bench and measures nothing; epbench model fit writes FILE, see epbench docs model",
		open:      openModel,
		missing:   nothing,
		onRequest: true,
		predicts:  true,
	},
}

func nothing() string { return "" }

// knownKernels returns the kernels of the backend with this name, or nil if they are not part of epbench.
func knownKernels(backend string) []kernels.Kernel {
	for _, e := range backendTable {
		if e.name == backend && e.known != nil {
			return e.known()
		}
	}
	return nil
}

func knownABI(backend string) ep.ABI {
	for _, e := range backendTable {
		if e.name == backend && e.abi != nil {
			return e.abi()
		}
	}
	return ""
}

func addBackendFlag(cmd *cobra.Command, spec *string) {
	flags(cmd, forBackend, func(s *pflag.FlagSet) {
		s.StringVar(spec, "backend", "auto", "`BACKEND` what runs the calls: auto, cpu, cuda, exec:COMMAND or launch:COMMAND; see epbench backends")
	})
}

// backendOf opens the backend that --backend names. It refuses a backend that predicts times.
func backendOf(cmd *cobra.Command, spec string) (kernels.Backend, error) {
	name, _, _ := strings.Cut(spec, ":")
	for _, e := range backendTable {
		if e.predicts && e.name == name {
			return nil, usagef("--backend %s: this backend predicts times and measures nothing, so %s cannot use it; use epbench bench or epbench model plan", name, cmd.CommandPath())
		}
	}
	return anyBackend(cmd, spec)
}

// anyBackend opens the backend that --backend names, even if it predicts times. The caller must mark these times as
// predicted.
func anyBackend(cmd *cobra.Command, spec string) (kernels.Backend, error) {
	b, note, err := openBackend(cmd.Context(), spec)
	if note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	return b, err
}

// openBackend opens the backend that `spec` names. For auto, `note` says which backend was opened, and why.
func openBackend(ctx context.Context, spec string) (b kernels.Backend, note string, err error) {
	if spec == "auto" {
		return openFirst(ctx)
	}
	name, arg, _ := strings.Cut(spec, ":")
	for _, e := range backendTable {
		if e.name != name {
			continue
		}
		if why := e.missing(); why != "" {
			return nil, "", fmt.Errorf("--backend %s: %s", name, why)
		}
		b, err := e.open(ctx, arg)
		if err != nil {
			return nil, "", fmt.Errorf("--backend %s: %w", name, err)
		}
		return b, "", nil
	}
	return nil, "", usagef("--backend: unknown %q, use auto, cpu, cuda, exec:COMMAND, launch:COMMAND or model:FILE", spec)
}

func openFirst(ctx context.Context) (kernels.Backend, string, error) {
	var skipped []string
	for _, e := range backendTable {
		if e.onRequest {
			continue
		}
		why := e.missing()
		if why == "" {
			b, err := e.open(ctx, "")
			if err == nil {
				return b, autoNote(e.name, skipped), nil
			}
			why = err.Error()
		}
		skipped = append(skipped, e.name+": "+why)
	}
	return nil, "", fmt.Errorf("--backend auto: nothing works here: %s", strings.Join(skipped, "; "))
}

func autoNote(name string, skipped []string) string {
	if len(skipped) == 0 {
		return "backend: " + name
	}
	return fmt.Sprintf("backend: %s (%s)", name, strings.Join(skipped, "; "))
}
