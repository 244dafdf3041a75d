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

// besideFlags say what runs beside the calls, and which time is made small.
type besideFlags struct {
	product   string
	objective string
}

func (f *besideFlags) bind(cmd *cobra.Command) {
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&f.product, "beside", "", "`WORK` that runs beside the calls: gemm (the model's expert products), gemm:M,N,K[,DTYPE[,GROUPS]] or copy; bench also step, a decode step of two micro-batches")
		s.StringVar(&f.objective, "objective", "", "`WHICH` time to make small: alone, or beside, what a call costs the work beside it; default: beside with --beside")
	})
}

// apply puts the product and the objective into problems.
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
	objective, err := ep.ParseObjective(cmp.Or(f.objective, ep.Beside.String()))
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

// searchable refuses what only bench measures. A step is made of pairs, whose halves a
// search would measure first, and no half is a step.
func (f *besideFlags) searchable() error {
	switch kind, _, _ := strings.Cut(f.product, ":"); kind {
	case "", ep.Gemm, ep.Copy:
		return nil
	case ep.Step:
		return usagef("--beside: a search needs gemm or copy; measure a step with bench")
	}
	return usagef("--beside: %.60q is none of gemm[:M,N,K[,DTYPE[,GROUPS]]] and copy", f.product)
}
