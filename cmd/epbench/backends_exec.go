package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/worker"
)

// listenEnv names the address that launched ranks connect back to, where they run on
// other hosts.
const listenEnv = "EPBENCH_LISTEN"

// launchLimit is the time that launched ranks get to start: importing PyTorch from a
// cold disk takes minutes.
const launchLimit = 3 * time.Minute

// openExec starts anybody's worker; arg is its command line.
func openExec(ctx context.Context, arg string) (kernels.Backend, error) {
	return openCommand(ctx, arg, "")
}

// openLaunch starts a command whose ranks connect back.
func openLaunch(ctx context.Context, arg string) (kernels.Backend, error) {
	return openCommand(ctx, arg, cmp.Or(os.Getenv(listenEnv), worker.Loopback))
}

func openCommand(ctx context.Context, line, listen string) (kernels.Backend, error) {
	argv, err := worker.Split(line)
	if err != nil {
		return nil, usagef("%w", err)
	}
	limits := worker.DefaultLimits()
	if listen != "" {
		limits.Hello = launchLimit
	}
	b, err := worker.Open(ctx, worker.Command{Argv: argv, Listen: listen, Said: showSaid}, limits, nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// showSaid shows what a worker printed on its standard output.
func showSaid(line string) { fmt.Fprintf(os.Stderr, "worker: %s\n", line) }
