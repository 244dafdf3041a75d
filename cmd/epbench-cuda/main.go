//go:build cuda

// Command epbench-cuda runs epbench's CUDA kernels on the GPUs of this host. It speaks the worker protocol
// (docs/worker-protocol.md) over stdin and stdout.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels/cuda/drive"
	"github.com/epbench/epbench/kernels/worker"
)

func main() {
	exit(newRoot().Execute())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "epbench-cuda:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type flags struct {
	options drive.Options
	drill   string
}

func newRoot() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:           "epbench-cuda",
		Short:         "Serve the worker protocol on stdin and stdout",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBackend(f, func(b *drive.Backend) error {
				return worker.Serve(cmd.Context(), "epbench-cuda", b, os.Stdin, os.Stdout)
			})
		},
	}
	p := root.PersistentFlags()
	p.BoolVar(&f.options.Loopback, "loopback", false, "let ranks share GPUs when there are fewer GPUs than ranks")
	p.StringVar(&f.options.Clock, "clock", "chain", "how calls are timed: chain (what a call adds to a CUDA graph of calls), event (between two CUDA events), "+
		"span (from the start of a kernel's first block to the end of its last), or span:STAGE (from there to the stage ready, sent or arrived)")
	p.DurationVar(&f.options.Deadline, "deadline", drive.DefaultDeadline, "longest wait of a kernel before it gives up")
	p.Float32Var(&f.options.InputScale, "input-scale", 1, "global input scale of nvfp4")
	p.StringVar(&f.drill, "drill", "", "cause a fault: drop:RANK:EXPERT[:CONFIG] or delay:RANK:DURATION[:CONFIG]")
	root.AddCommand(newInfo(f), newSelfTest(f), newCopy(f), newRank(f))
	root.SetContext(context.Background())
	return root
}

func (f *flags) parseDrill() (err error) {
	if f.drill != "" {
		f.options.Drill, err = drive.ParseDrill(f.drill)
	}
	return err
}

func withBackend(f *flags, use func(*drive.Backend) error) error {
	if err := f.parseDrill(); err != nil {
		return err
	}
	b, err := drive.Open(f.options)
	if err != nil {
		return err
	}
	defer b.Close()
	return use(b)
}

func newInfo(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show GPUs, links, driver and the time that each clock reads for an empty kernel",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBackend(f, func(b *drive.Backend) error { return printInfo(cmd, b, os.Stdout) })
		},
	}
}

func printInfo(cmd *cobra.Command, b *drive.Backend, w io.Writer) error {
	m := b.Machine()
	fmt.Fprintf(w, "%d x %s (%s, %s, %d SMs, %d GiB)\n", m.GPUs, m.Name, m.PCIID, m.Arch, m.SMs, m.Memory>>30)
	fmt.Fprintf(w, "links %s, driver %s, CUDA %s, kernels %.12s\n", m.Link, m.Driver, m.CUDA, b.ABI())
	empty, err := b.Empty(cmd.Context())
	if err != nil {
		return err
	}
	for _, clock := range []string{"chain", "span", "event"} {
		fmt.Fprintf(w, "empty kernel, %s: %.2f us\n", clock, empty[clock]*1e6)
	}
	return nil
}

func newSelfTest(f *flags) *cobra.Command {
	rounds := 100_000
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Check message passing, copies, scans, codecs and activation kernels on the GPUs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBackend(f, func(b *drive.Backend) error { return b.SelfTest(cmd.Context(), os.Stdout, rounds) })
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", rounds, "number of messages and signals to pass")
	return cmd
}
