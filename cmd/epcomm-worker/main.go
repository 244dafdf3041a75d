//go:build cuda

// Command epcomm-worker runs epcomm behind the worker protocol, one process a rank,
// so that the oracle judges it as it judges any backend:
//
//	EPBENCH_CUDA=bin/epcomm-worker epbench verify --backend cuda
//	epbench bench --backend "exec:bin/epcomm-worker --pack model.pack" ...
//	epbench verify --backend "exec:bin/epcomm-worker --nodes 2" --ranks 2 --nodes 2
//
// Without --pack it makes a pack of every candidate. With one, the pack's own
// look-up chooses a row of full precision. A pack made with --precision reduced has rows
// of reduced precision too: --config epcomm:precision=reduced takes them.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels/worker"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "epcomm-worker:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	var path string
	var deadline time.Duration
	var nodes int
	root := &cobra.Command{
		Use:           "epcomm-worker",
		Short:         "Serve the worker protocol on stdin and stdout",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := openBackend(path, nodes, deadline)
			if err != nil {
				return err
			}
			return worker.Serve(cmd.Context(), "epcomm-worker", b, os.Stdin, os.Stdout)
		},
	}
	root.Flags().StringVar(&path, "pack", "", "pack to run; without one, a pack is made of every candidate")
	root.Flags().IntVar(&nodes, "nodes", 1, "so many hosts, of which the GPUs of this one play the parts: kernels that cross hosts, over NVSHMEM; a pack says it itself")
	root.Flags().DurationVar(&deadline, "deadline", 2*time.Second, "longest wait of a kernel before it gives up")
	root.AddCommand(&cobra.Command{
		Use:   "rank",
		Short: "One rank, for the worker that started it",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return serveRank(os.Stdin, os.Stdout) },
	})
	return root
}
