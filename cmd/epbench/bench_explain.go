package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/sweep"
)

// explained measures how much each part of a call slows down the matrix product.
func (f *benchFlags) explained(cmd *cobra.Command, b kernels.Backend, opts *sweep.Options, pick sweep.Picker) error {
	if f.beside.product == "" {
		return usagef("--explain: needs --beside gemm")
	}
	all, err := sweep.Explain(cmd.Context(), b, opts, f.rounds, pick)
	if err != nil {
		return err
	}
	return f.tables.print(cmd, explainedTable(all))
}

func explainedTable(all []sweep.Explanation) reports.Table {
	t := reports.Table{Name: "explained", Title: "What slows the product down", Columns: []reports.Column{
		reports.Words("op").Keyed(), reports.Numbers("tokens", "").Keyed(), reports.Words("routing").Keyed(), reports.Words("config").Keyed(),
		reports.Words("beside"), reports.Numbers("alone", "us"), reports.Numbers("slow-down", "%"), reports.Numbers("low", "%"), reports.Numbers("high", "%")}}
	for _, x := range all {
		for _, e := range x.Effects {
			t.Add(reports.Str(string(x.Problem.Op)), reports.Int(x.Problem.Tokens), reports.Str(x.Routing), reports.Str(x.Config.ID()), reports.Str(e.Beside),
				reports.Micros(e.Alone), reports.Percent(e.Slowdown.Mid-1), reports.Percent(e.Slowdown.Low-1), reports.Percent(e.Slowdown.High-1))
		}
		if spelled := x.Config.ID() + ": " + x.Config.Key(); !slices.Contains(t.Notes, spelled) {
			t.Note(spelled)
		}
	}
	t.Note("alone: time without a load, on the slowest rank, median of the rounds. slow-down: time beside the load / time alone in the same round; it is the median of rounds, with its 95 % interval. Each call has an equal part of the product beside it; both times are of this part")
	return t
}
