package main

import (
	"context"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/worker"
)

// openExec starts anybody's worker; arg is its command line, split at spaces.
func openExec(ctx context.Context, arg string) (kernels.Backend, error) {
	b, err := worker.Open(ctx, strings.Fields(arg), worker.DefaultLimits(), nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}
