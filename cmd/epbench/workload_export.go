package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/workloads"
	"github.com/epbench/epbench/workloads/trace"
)

type exportOptions struct {
	problem problemFlags
	out     string
}

func newWorkloadExport() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export -o FILE",
		Short: "Write a random routing as .npy, .npz, .csv or .jsonl",
		Long: `Draw one routing and write the expert ids of each token, for the tokens of all ranks
in order. The id -1 is a masked selection. A .npy file holds the ids as int32 [tokens,
top-k]. A .npz file holds the arrays topk_ids and topk_weights. A .csv or .jsonl file
holds ids and weights. --routing trace:FILE replays the file.`,
		Example: `  epbench workload export --model deepseek-v3 --routing zipf:1.0 -o zipf.npy
  epbench workload export --tokens 64 --routing khot:8:0.9 -o hot.csv
  epbench workload export --experts 64 --topk 6 --tokens 128 -o drawn.npz`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.problem.bind(cmd, notDrawn...)
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&o.out, "out", "o", "", "`FILE` file to write") })
	cmd.Flags().Lookup("tokens").DefValue = "64"
	cmd.Flags().Lookup("routing").DefValue = "uniform"
	o.problem.tokens, o.problem.routing = "64", "uniform"
	return cmd
}

func (o *exportOptions) run(cmd *cobra.Command) error {
	if o.out == "" {
		return usagef("-o FILE is required: a .npy, .npz, .csv or .jsonl file, or - to print CSV")
	}
	draw, err := drawOptions(&o.problem)
	if err != nil {
		return err
	}
	if n := len(draw.Problems) * len(draw.Distributions); n != 1 {
		return usagef("--tokens, --dtype, --routing: a file holds one routing, but these flags give %d", n)
	}
	w, err := workloads.New(draw.Distributions[0], draw.Problems[0], draw.Seed)
	if err != nil {
		return badInput(fmt.Errorf("--%w", err))
	}
	err = writeTrace(cmd, o.out, func(path string) error {
		out, err := trace.Create(path, w.Problem.TopK, true)
		if err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		return errors.Join(drawn(w, out), out.Close())
	})
	if err != nil {
		return badInput(err)
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s: %s, %d tokens, top-%d of %d experts\n",
		o.out, w.Spec, w.Stats().Tokens, w.Problem.TopK, w.Problem.Experts)
	return err
}

func drawn(w *workloads.Workload, out trace.Writer) error {
	for _, rt := range w.Ranks {
		if err := out.Write(rt.Experts, rt.Weights); err != nil {
			return err
		}
		if w.Problem.SkipA2A {
			break // every rank has the same tokens
		}
	}
	return nil
}
