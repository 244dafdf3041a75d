package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/spacefile"
	"github.com/epbench/epbench/tune/sweep"
)

type sweepFlags struct {
	problem problemFlags
	beside  besideFlags
	tables  tableFlags
	backend string

	strategy  string
	budget    string
	params    []string
	space     string
	kernels   string
	maxSMs    int
	band      float64
	sessions  int
	precision string
	table     string

	out     string
	resume  string
	trust   bool
	retry   []string
	dryRun  bool
	profile bool
}

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Search launch parameters, check and measure, write a tuned table",
		Long: `Search the legal launch parameters of dispatch, combine and pair for every token
count and routing. The oracle checks every candidate before and after it is timed.
The run directory holds every trial, the tuned table and a report. --op activation
searches the SwiGLU kernel between the experts' two matrix products instead.

Without flags, sweep searches the preset demo on the best backend of this machine, in
less than a minute on two cores. Ctrl-C keeps the trials: continue with --resume RUN.`,
		Example: `  epbench sweep --model deepseek-v3 --tokens 1,8,128 --dtype fp8 -o run
  epbench sweep --op dispatch --tokens 64 --param blocks=1:8 --budget 2m
  epbench sweep --model qwen3-30b-a3b --tokens 1:4096:x4 --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	return cmd
}

func (f *sweepFlags) bind(cmd *cobra.Command) {
	f.problem.bind(cmd)
	f.beside.bind(cmd)
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.StringVar(&f.budget, "budget", "", "`BUDGET` number of configs for each search, such as 500, or time for the whole sweep, such as 10m; default: 30s on cpu, no limit elsewhere")
		s.StringVar(&f.precision, "precision", "full", "`PRECISION` full or reduced; reduced adds a second search, with configs that round partial sums to BF16")
		s.StringVar(&f.table, "table", "", "`TABLE` the table in use now: a config of this table stays the winner unless another config is faster by more than --band")
		s.StringArrayVar(&f.params, "param", nil, "`NAME=VALUES` values of a parameter: threads=256,512 or sms=8:132:4; repeatable")
		s.IntVar(&f.maxSMs, "max-sms", 0, "`N` at most N SMs for each config and the default (cpu: N workers a rank); 0: no limit")
		percentVar(s, &f.band, "band", maxBand, "`PERCENT` ignore smaller differences in time, such as 3% on a noisy machine; default: 1% with GPUs, 10% without")
		bindSessions(s, &f.sessions, "`N` sessions that follow the search and give the times of the winners; each lays out memory anew. 1: the search itself gives the times; default: 3 on GPUs, 1 on cpu")
		s.StringVar(&f.kernels, "kernel", "", "`KERNELS` kernels to search, comma-separated; default: all kernels of the backend")
		s.StringVar(&f.space, "space", "", "`FILE` YAML file with values, constraints and required candidates")
		s.StringVar(&f.strategy, "strategy", search.DefaultStrategy, "`STRATEGY` "+strings.Join(search.StrategyNames(), ", ")+", exec:COMMAND (epbench docs search-own)")
		s.StringArrayVar(&f.retry, "retry", nil, "`CONFIG` with --resume: try this config again, although it failed before; repeatable")
	})
	addBackendFlag(cmd, &f.backend)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`DIR` run directory to write; default: epbench-runs/TIME")
		s.StringVar(&f.resume, "resume", "", "`DIR` continue the run in this directory, with the flags that it records")
		bindTrust(s, &f.trust)
		s.BoolVar(&f.dryRun, "dry-run", false, "print the plan and the number of configs, and estimate the time from two rounds; write nothing")
		s.BoolVar(&f.profile, "profile", false, "print to standard error where the time went, also with --format csv and json")
	})
	f.tables.bind(cmd)
}

// command returns the command line, which --resume reads from run.json.
func (f *sweepFlags) command(cmd *cobra.Command) []string { return commandLine(cmd, "sweep") }

func resumed(command []string) (*sweepFlags, error) {
	var f sweepFlags
	cmd := &cobra.Command{Use: "sweep"}
	f.bind(cmd)
	if len(command) < 2 || command[1] != "sweep" {
		return nil, errors.New("command: the run was not made by epbench sweep")
	}
	args := slices.Clone(command[2:])
	for i, arg := range args {
		if strings.HasPrefix(arg, "--band=") && !strings.HasSuffix(arg, "%") {
			args[i] += "%" // epbench recorded --band=3 for 3 % before v0.1.0
		}
	}
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	_, err := f.tables.renderer(cmd) // refuses --format fp8: in old runs, --format meant --dtype
	return &f, err
}

// minSessions and maxSessions bound --sessions. The value 1 is also allowed.
const (
	minSessions = 3
	maxSessions = 100
)

func bindSessions(s *pflag.FlagSet, sessions *int, usage string) {
	s.IntVar(sessions, "sessions", sweep.DefaultSessions, usage)
	s.Lookup("sessions").DefValue = "" // the usage names the default
}

func checkSessions(n int) error {
	if n != sweep.DefaultSessions && n != 0 && n != 1 && (n < minSessions || n > maxSessions) {
		return usagef("--sessions: %d is not allowed; use 1, or %d to %d. Fewer than %[2]d sessions cannot show how much a time differs from session to session", n, minSessions, maxSessions)
	}
	return nil
}

// cpuBudget lets a user's first sweep, on the CPU backend, end within a minute.
const cpuBudget = 30 * time.Second

func (f *sweepFlags) options(b kernels.Backend) (*sweep.Options, error) {
	m := b.Machine()
	o, err := f.problem.options(m, b.Kernels())
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(f.beside.searchable(), f.beside.apply(o.Problems, f.problem.model)); err != nil {
		return nil, err
	}
	o.Strategy, o.Kernels, o.MaxSMs = f.strategy, splitList(f.kernels), f.maxSMs
	if o.Precision, err = ep.ParsePrecision(f.precision); err != nil {
		return nil, usagef("--%w", err)
	}
	if err := checkSessions(f.sessions); err != nil {
		return nil, err
	}
	o.Band, o.Sessions = f.band, f.sessions
	if f.maxSMs < 0 {
		return nil, usagef("--max-sms: %d is below 0", f.maxSMs)
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
			return usagef("--budget: %d is below 1 config", n)
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
			return nil, usagef("--param: %q is not of the form NAME=VALUES, such as threads=256,512", spec)
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

func badSpace(path string, err error) error {
	return usagef("--space: %w", ep.FileError(path, err, "epbench docs search-space shows such a file"))
}

func (f *sweepFlags) readFiles(o *sweep.Options) error {
	if f.space != "" {
		in, err := os.Open(f.space)
		if err != nil {
			return badSpace(f.space, err)
		}
		defer in.Close()
		if o.Space, err = spacefile.Read(in); err != nil {
			return badSpace(f.space, err)
		}
	}
	if f.table != "" {
		t, err := loadTable(f.table, false)
		if err != nil {
			return badInput(fmt.Errorf("--table: %w", err))
		}
		o.Incumbent = t
	}
	return nil
}
