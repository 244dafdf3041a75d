package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

type besideFlags struct {
	product   string
	objective string
}

func (f *besideFlags) bind(cmd *cobra.Command) {
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&f.product, "beside", "", "`PRODUCT` run this at the same time as the calls: gemm (the matrix products of the model's experts), gemm:M,N,K[,DTYPE[,GROUPS]] or copy; in bench also step (a decode step of two micro-batches)")
		s.StringVar(&f.objective, "objective", "", "`TIME` what to minimize: alone (the time of a call that runs alone), or beside (the time that a call adds to the product); default: beside if --beside is given")
	})
}

func (f *besideFlags) apply(problems []ep.Problem, model string) error {
	if f.product == "" {
		if f.objective != "" && f.objective != ep.Alone.String() {
			return usagef("--objective: %s needs --beside, such as --beside gemm", f.objective)
		}
		return nil
	}
	q, err := ep.ParseProduct(f.product)
	if err != nil {
		return badInput(fmt.Errorf("--%w", err))
	}
	objective, err := ep.ParseObjective(cmp.Or(f.objective, ep.BesideProduct.String()))
	if err != nil {
		return badInput(fmt.Errorf("--%w", err))
	}
	preset, err := workloads.FindPreset(model)
	if err != nil {
		return badInput(fmt.Errorf("--model: %w", err))
	}
	for i, p := range problems {
		problems[i] = p.WithProduct(q, preset.Intermediate, objective)
		if err := problems[i].Validate(); err != nil {
			return badInput(fmt.Errorf("--%w", err))
		}
	}
	return nil
}

// searchable refuses products that a search cannot use. A step runs dispatch and combine together, but a search
// measures them one by one.
func (f *besideFlags) searchable() error {
	switch kind, _, _ := strings.Cut(f.product, ":"); kind {
	case "", ep.Gemm, ep.Copy:
		return nil
	case ep.Step:
		return usagef("--beside: a search needs gemm or copy; measure a step with bench")
	}
	return usagef("--beside: unknown product %.60q, use gemm[:M,N,K[,DTYPE[,GROUPS]]] or copy", f.product)
}
