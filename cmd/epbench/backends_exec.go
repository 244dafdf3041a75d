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

// listenEnv gives the address to which ranks on other hosts connect.
const listenEnv = "EPBENCH_LISTEN"

// launchLimit bounds the time until launched ranks connect. Importing PyTorch from a cold disk takes minutes.
const launchLimit = 3 * time.Minute

func openExec(ctx context.Context, arg string) (kernels.Backend, error) {
	return openCommand(ctx, arg, "")
}

func openLaunch(ctx context.Context, arg string) (kernels.Backend, error) {
	return openCommand(ctx, arg, cmp.Or(os.Getenv(listenEnv), worker.Loopback))
}

func openCommand(ctx context.Context, line, listen string) (kernels.Backend, error) {
	argv, err := worker.Split(line)
	if err != nil {
		return nil, usagef("%w", err)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, usagef("the program %s, which would start the worker, was not found: %w", argv[0], errors.Unwrap(err))
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

// ownKernels returns the kernels of a worker that was built from this source, and nil for other workers.
func ownKernels(w worker.Welcome) ([]kernels.Kernel, error) {
	switch w.ABI {
	case declare.ABI():
		return declare.Kernels(), nil
	case declare.HostABI():
		return declare.HostKernels(w.Machine), nil
	}
	return nil, nil
}

func showSaid(line string) { fmt.Fprintf(os.Stderr, "worker: %s\n", line) }
