package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// fitInFlight lists the numbers of calls in flight that --fit prints.
var fitInFlight = []int{1, 2, 4}

// runFit prints how many tokens a rank may have if its buffers must fit into the memory of --fit. With --max-tokens it
// also prints how many calls in flight fit.
func (f *packFlags) runFit(cmd *cobra.Command) error {
	size, err := parseSize(f.fit)
	if err != nil {
		return usagef("--fit: %v", err)
	}
	if f.out != "" {
		return usagef("--fit only prints numbers and makes no pack; leave out -o")
	}
	r, err := f.request()
	if err != nil {
		return err
	}
	layouts := ep.Layouts()
	if cmd.Flags().Changed("layout") {
		layouts = []ep.Layout{r.Problem.Layout}
	}
	t := reports.Table{Name: "fit", Title: fmt.Sprintf("Most tokens of a rank for which epcomm's buffers fit into %s: %d ranks, %d nodes, hidden %d, %d experts, top-%d", f.fit, r.Problem.Ranks, max(1, r.Problem.Nodes), r.Problem.Hidden, r.Problem.Experts, r.Problem.TopK),
		Columns: []reports.Column{reports.Words("layout"), reports.Numbers("calls in flight", ""), reports.Numbers("tokens", ""), reports.Numbers("memory", "MiB")}}
	for _, layout := range layouts {
		r.Problem.Layout = layout
		if err := f.addFits(&t, r, size); err != nil && len(layouts) == 1 {
			return badInput(err)
		} else if err != nil {
			t.Note(fmt.Sprintf("layout %s: %v", layout, err))
		}
	}
	if len(t.Rows) == 0 {
		return badInput(fmt.Errorf("no pack can be made: %s", t.Notes))
	}
	t.Note("tokens: rounded down to 1, 1.25, 1.5 or 1.75 times a power of two", "memory: epcomm's buffers on each rank for all dtypes of --dtype, without weights, activations and device binaries")
	return f.tables.print(cmd, t)
}

func (f *packFlags) addFits(t *reports.Table, r pack.Request, size int64) error {
	fitter := pack.Fitter{Request: r}
	counts := fitInFlight
	if tokens := f.problem.maxTokens; tokens > 0 {
		n, err := fitter.InFlight(size, tokens)
		if err != nil {
			return err
		}
		t.Note(fmt.Sprintf("layout %s: %d calls in flight of %d tokens fit", r.Problem.Layout, n, tokens))
		if n > 0 && !slices.Contains(counts, n) {
			counts = slices.Sorted(slices.Values(append(slices.Clone(counts), n)))
		}
	}
	for _, inFlight := range counts {
		tokens, heap, err := fitter.Tokens(size, inFlight)
		if err != nil {
			return err
		}
		if err := fitter.Beyond(tokens); err != nil && tokens > 0 {
			t.Note(fmt.Sprintf("layout %s: no pack can be made for more than %s: %v", r.Problem.Layout, ep.Tokens(tokens), err))
		}
		t.Add(reports.Str(r.Problem.Layout.String()), reports.Int(inFlight), reports.Int(tokens), reports.Float(float64(heap)/(1<<20), 1))
	}
	return nil
}
