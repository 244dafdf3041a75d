//go:build cuda

// Command epcomm-worker lets epbench check and time the library epcomm. It serves the worker protocol and starts one
// process for each rank:
//
//	EPBENCH_CUDA=bin/epcomm-worker epbench verify --backend cuda
//	epbench bench --backend "exec:bin/epcomm-worker --pack model.pack" ...
//	epbench verify --backend "exec:bin/epcomm-worker --nodes 2" --ranks 2 --nodes 2
//
// A pack is a file with compiled kernels. Without --pack every candidate gets a pack of its own. A pack can have
// rows for reduced precision. These rows run only with --config epcomm:precision=reduced.
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
	root.Flags().StringVar(&path, "pack", "", "pack to run; without it, a pack is made for every candidate")
	root.Flags().IntVar(&nodes, "nodes", 1, "number of hosts to imitate: the GPUs of this host are split among them, and kernels send between them over NVSHMEM; a pack states its own number")
	root.Flags().DurationVar(&deadline, "deadline", 2*time.Second, "longest time that a kernel waits for another rank")
	root.AddCommand(&cobra.Command{
		Use:   "rank",
		Short: "Serve one rank to the worker that starts this process",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return serveRank(os.Stdin, os.Stdout) },
	})
	return root
}
