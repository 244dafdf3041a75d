package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/workloads"
)

type workloadOptions struct {
	problem problemFlags
	tables  tableFlags
	link    float64
	matrix  bool
	list    bool
	steps   int
	half    float64
}

func newWorkload() *cobra.Command {
	var o workloadOptions
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Draw routings: print their skew, traffic and wire limit",
		Long: `Draw each routing for each token count. Print how uneven it is, its routing class
(part of the key of a table's rows), and the bytes that cross the wire. --list explains all
routings.`,
		Example: `  epbench workload --model deepseek-v3 --ranks 8 --tokens 128 --routing zipf:1.0
  epbench workload --list
  epbench workload --routing hotrank:4 --link 450 --matrix`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.problem.bind(cmd, notDrawn...)
	flags(cmd, forOutput, o.bind)
	o.tables.bind(cmd)
	cmd.AddCommand(newWorkloadImport(), newWorkloadExport(), newWorkloadFit(), newWorkloadBalance())
	return cmd
}

// notDrawn lists the problem flags that have no effect on a drawn routing.
var notDrawn = []string{"op", "mode", "nodes", "max-tokens", "layout"}

func (o *workloadOptions) bind(s *pflag.FlagSet) {
	s.Float64Var(&o.link, "link", 0, "`GB/s` speed of a rank's link each way, for the wire limit (1 GB is 10^9 bytes)")
	s.BoolVar(&o.matrix, "matrix", false, "also print the bytes from each rank to each rank")
	s.BoolVar(&o.list, "list", false, "explain the distributions and modifiers of --routing")
	s.IntVar(&o.steps, "steps", 0, "`N` let the routing drift for this many steps")
	s.Float64Var(&o.half, "half-life", 16, "`STEPS` with --steps: number of steps after which half of the experts have passed their popularity to others")
}

func (o *workloadOptions) run(cmd *cobra.Command) error {
	if o.list {
		return o.tables.print(cmd, kindTable("distributions", workloads.Kinds()), kindTable("modifiers", workloads.Modifiers()))
	}
	if !(o.link >= 0) {
		return usagef("--link: %v is below 0", o.link)
	}
	if cmd.Flags().Changed("steps") && (o.steps < 1 || o.steps > 10_001) {
		return usagef("--steps: %d is outside 1 to 10001", o.steps)
	}
	w, err := drawOptions(&o.problem)
	if err != nil {
		return err
	}
	for _, d := range w.Distributions {
		if o.steps > 0 && strings.Contains(d.Spec(), "+drift") {
			return usagef("--steps: adds drift itself; leave +drift out of --routing")
		}
	}
	t := newRoutingTables(o.link)
	for _, d := range w.Distributions {
		for _, p := range w.Problems {
			if err := o.draw(&t, d, p); err != nil {
				return badInput(fmt.Errorf("--%w", err))
			}
		}
	}
	return o.tables.print(cmd, t.tables(o.matrix)...)
}

func (o *workloadOptions) draw(t *routingTables, d workloads.Distribution, p ep.Problem) error {
	if o.steps > 0 {
		for w, err := range workloads.Sequence(d.Spec(), o.half, o.steps, p, o.problem.seed) {
			if err != nil {
				return err
			}
			t.add(w)
		}
		return nil
	}
	w, err := workloads.New(d, p, o.problem.seed)
	if err != nil {
		return err
	}
	t.add(w)
	sol, ok, err := workloads.Solve(d, p, o.problem.seed)
	if ok {
		t.solved(d.Spec(), sol)
	}
	return err
}

// drawOptions returns the problems and routings to draw, for dispatch only: a routing is the same for every op.
func drawOptions(f *problemFlags) (*sweep.Options, error) {
	f.ops = string(ep.Dispatch)
	return f.options(ep.Machine{Backend: "cpu"}, nil)
}

func kindTable(name string, kinds []workloads.Kind) reports.Table {
	t := reports.Table{Name: name, Columns: []reports.Column{reports.Words("name"), reports.Words("arguments"), reports.Words("meaning")}}
	for _, k := range kinds {
		t.Add(reports.Str(k.Name), reports.Str(k.Args), reports.Str(k.Doc))
	}
	return t
}
