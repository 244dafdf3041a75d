package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/worker"
)

// listenEnv is the variable with the address to which ranks on other hosts connect back.
const listenEnv = "EPBENCH_LISTEN"

// launchLimit is the time in which launched ranks must start: importing PyTorch from a cold
// disk takes minutes.
const launchLimit = 3 * time.Minute

// openExec starts the worker with the command line arg.
func openExec(ctx context.Context, arg string) (kernels.Backend, error) {
	return openCommand(ctx, arg, "")
}

// openLaunch starts a command whose ranks connect back to this program.
func openLaunch(ctx context.Context, arg string) (kernels.Backend, error) {
	return openCommand(ctx, arg, cmp.Or(os.Getenv(listenEnv), worker.Loopback))
}

func openCommand(ctx context.Context, line, listen string) (kernels.Backend, error) {
	argv, err := worker.Split(line)
	if err != nil {
		return nil, usagef("%w", err)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, usagef("there is no program %s to start the worker with: %w", argv[0], errors.Unwrap(err))
	}
	limits := worker.DefaultLimits()
	if listen != "" {
		limits.Hello = launchLimit
	}
	b, err := worker.Open(ctx, worker.Command{Argv: argv, Listen: listen, Said: showSaid}, limits, ownKernels)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// ownKernels returns the kernels of a worker that was built from this program's sources.
// Any other worker declares its kernels itself.
func ownKernels(w worker.Welcome) ([]kernels.Kernel, error) {
	switch w.ABI {
	case declare.ABI():
		return declare.Kernels(), nil
	case declare.HostABI():
		return declare.HostKernels(w.Machine), nil
	}
	return nil, nil
}

// showSaid prints a line of a worker's standard output.
func showSaid(line string) { fmt.Fprintf(os.Stderr, "worker: %s\n", line) }
