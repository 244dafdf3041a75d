package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/spacefile"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/table"
)

// sweepFlags are the flags of sweep.
type sweepFlags struct {
	problem problemFlags
	tables  tableFlags
	backend string

	strategy  string
	budget    string
	params    []string
	space     string
	kernels   string
	maxSMs    int
	precision string
	table     string

	out     string
	resume  string
	retry   []string
	dryRun  bool
	profile bool
}

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Search launch parameters, verify and measure, write a tuned table",
		Long: `Search the legal launch parameters of dispatch, combine and pair for every token
count and routing. Every answer is compared with the oracle before and after it
is timed. The run directory holds every trial, the tuned table and a report.

Without flags it sweeps the preset demo on the best backend here, in less than a
minute on two cores. Ctrl-C keeps what was measured: go on with --resume DIR.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	return cmd
}

func (f *sweepFlags) bind(cmd *cobra.Command) {
	f.problem.bind(cmd)
	f.tables.bind(cmd)
	addBackendFlag(cmd, &f.backend)
	s := cmd.Flags()
	s.StringVar(&f.strategy, "strategy", "race", "search strategy: "+strings.Join(search.StrategyNames(), ", "))
	s.StringVar(&f.budget, "budget", "", "configs of one search (500) or time of the whole sweep (10m); default: 30s on cpu, no bound elsewhere")
	s.StringArrayVar(&f.params, "param", nil, "values of a parameter instead of the kernel's own: threads=256,512 or sms=8:132:4; repeatable")
	s.StringVar(&f.space, "space", "", "YAML file with values, constraints and required candidates")
	s.StringVar(&f.kernels, "kernel", "", "kernels to search, comma-separated; default: all of the backend")
	s.IntVar(&f.maxSMs, "max-sms", 0, "most SMs (workers of a rank on cpu) a config may take, the default too; 0: no bound")
	s.StringVar(&f.precision, "precision", "full", "full, or reduced: search a second time with the parameters that round what travels")
	s.StringVar(&f.table, "table", "", "table in use today: its rows stay unless beaten by the tie band")
	s.StringVarP(&f.out, "out", "o", "", "run directory to write; default: epbench-runs/TIME")
	s.StringVar(&f.resume, "resume", "", "continue this run directory with its own flags")
	s.StringArrayVar(&f.retry, "retry", nil, "with --resume: give a quarantined config (kernel:name=value,...) another chance; repeatable")
	s.BoolVar(&f.dryRun, "dry-run", false, "print the plan, its size and the least time it takes; measure nothing")
	s.BoolVar(&f.profile, "profile", false, "print where the time went")
}

// command is the command line that --resume parses again.
func (f *sweepFlags) command(cmd *cobra.Command) []string { return commandLine(cmd, "sweep") }

// resumed is the flags of a recorded command line.
func resumed(command []string) (*sweepFlags, error) {
	var f sweepFlags
	cmd := &cobra.Command{Use: "sweep"}
	f.bind(cmd)
	if len(command) < 2 || command[1] != "sweep" {
		return nil, errors.New("command: the run was not made by epbench sweep")
	}
	if err := cmd.ParseFlags(command[2:]); err != nil {
		return nil, err
	}
	_, err := f.tables.renderer(cmd) // refuses the --format fp8 of runs before --dtype
	return &f, err
}

// cpuBudget bounds a sweep on the embedded backend: a newcomer's first run
// ends within a minute.
const cpuBudget = 30 * time.Second

// options turns the flags into what to sweep on a machine.
func (f *sweepFlags) options(m ep.Machine) (*sweep.Options, error) {
	problems, err := f.problem.problems(m)
	if err != nil {
		return nil, err
	}
	dists, err := f.problem.distributions()
	if err != nil {
		return nil, err
	}
	o := &sweep.Options{
		Problems: problems, Distributions: dists, Seed: f.problem.seed, Strategy: f.strategy,
		Kernels: splitList(f.kernels), MaxSMs: f.maxSMs, Tool: version,
	}
	if o.Precision, err = ep.ParsePrecision(f.precision); err != nil {
		return nil, usagef("--%w", err)
	}
	if f.maxSMs < 0 {
		return nil, usagef("--max-sms: %d is below 0", f.maxSMs)
	}
	if _, err := search.ParseStrategy(f.strategy); err != nil {
		return nil, usagef("--%w", err)
	}
	if err := f.setBudget(o, m); err != nil {
		return nil, err
	}
	if o.Params, err = parseParams(f.params); err != nil {
		return nil, err
	}
	return o, f.readFiles(o)
}

func (f *sweepFlags) setBudget(o *sweep.Options, m ep.Machine) error {
	if f.budget == "" {
		if m.Backend == "cpu" {
			o.Time = cpuBudget
		}
		return nil
	}
	if n, err := strconv.Atoi(f.budget); err == nil {
		if o.Evaluations = n; n < 1 {
			return usagef("--budget: %d configs is below 1", n)
		}
		return nil
	}
	d, err := time.ParseDuration(f.budget)
	if err != nil || d < time.Second {
		return usagef("--budget: %q is neither a number of configs (500) nor a time of at least 1s (10m)", f.budget)
	}
	o.Time = d
	return nil
}

func parseParams(specs []string) (map[string][]ep.Value, error) {
	out := map[string][]ep.Value{}
	for _, spec := range specs {
		name, values, ok := strings.Cut(spec, "=")
		if !ok || name == "" {
			return nil, usagef("--param: %q is not name=values, as in threads=256,512", spec)
		}
		if _, twice := out[name]; twice {
			return nil, usagef("--param: %s is given twice", name)
		}
		vs, err := spacefile.ParseValues(values)
		if err != nil {
			return nil, usagef("--param %s: %w", name, err)
		}
		out[name] = vs
	}
	return out, nil
}

func (f *sweepFlags) readFiles(o *sweep.Options) error {
	if f.space != "" {
		in, err := os.Open(f.space)
		if err != nil {
			return badInput(fmt.Errorf("--space: %w", err))
		}
		defer in.Close()
		if o.Space, err = spacefile.Read(in); err != nil {
			return badInput(fmt.Errorf("--space %s: %w", f.space, err))
		}
	}
	if f.table != "" {
		t, err := table.LoadFile(f.table, false)
		if err != nil {
			return badInput(fmt.Errorf("--table: %w", err))
		}
		o.Incumbent = t
	}
	return nil
}
