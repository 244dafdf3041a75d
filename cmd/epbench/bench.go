package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/table"
)

type benchFlags struct {
	problem   problemFlags
	beside    besideFlags
	tables    tableFlags
	backend   string
	config    string
	table     string
	over      string
	explain   bool
	precision string
	rounds    int
	sessions  int
	out       string
	abTest    abFlags
}

func newBench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [--ab A B]",
		Short: "Measure one config against the default",
		Long: `Check and time one config and the default in the same rounds. --config gives the
config, or --table chooses it. Without both, only the default is timed.

--ab compares two configs instead, B with A, in the same rounds and in balanced
random order. A difference smaller than the band does not count (epbench help terms).
With --fail-on the exit code gives the verdict, as in compare.`,
		Example: `  epbench bench --model deepseek-v3 --tokens 128 --table run
  epbench bench --op dispatch --tokens 64 --config "algo=dedup blocks=2"
  epbench bench --op dispatch --tokens 64 --ab default blocks=2 --fail-on 3%`,
		Args: f.abTest.args,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.problem.bind(cmd)
	f.beside.bind(cmd)
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.StringVar(&f.config, "config", "", "`CONFIG` config to measure: "+configUsageRun)
		s.StringVar(&f.table, "table", "", "`TABLE` take the config from a table, or from the table of a run")
		s.StringVar(&f.over, "over", "", "`TABLE` take the default from a table, or from the table of a run")
		s.StringVar(&f.precision, "precision", "full", "`PRECISION` with --table: precision of the rows that may be used, full or reduced")
		s.BoolVar(&f.explain, "explain", false, "with --beside gemm: measure what slows the matrix product down, by running it with artificial loads in place of calls")
		s.IntVar(&f.rounds, "rounds", 50, "`N` rounds of each config")
		bindSessions(s, &f.sessions, "`N` number of sessions, each of --rounds; times and gains use all sessions; default: 12 on GPUs, 1 on cpu")
		s.BoolVar(&f.abTest.on, "ab", false, "compare two configs in the same rounds: bench --ab A B")
		percentVar(s, &f.abTest.failOn, "fail-on", maxShare, "`PERCENT` with --ab: exit 3 if B is slower by this much, such as 3%")
	})
	addBackendFlag(cmd, &f.backend)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`DIR` run directory to write; default: none")
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command, args []string) error {
	if _, err := f.tables.renderer(cmd); err != nil {
		return err
	}
	if f.rounds < 1 || f.rounds > 100_000 {
		return usagef("--rounds: %d is outside 1 to 100000", f.rounds)
	}
	if err := checkSessions(f.sessions); err != nil {
		return err
	}
	if f.abTest.on && f.sessions > 1 {
		return usagef("--sessions: --ab compares in one session; leave --sessions out")
	}
	b, err := anyBackend(cmd, f.backend)
	if err != nil {
		return err
	}
	defer b.Close()
	if predicts(b) {
		return f.predict(cmd, b)
	}
	if f.abTest.on {
		return f.ab(cmd, b, args)
	}
	opts, err := f.options(b)
	if err != nil {
		return err
	}
	pick, err := f.picker(b, opts)
	if err != nil {
		return err
	}
	return f.measure(cmd, b, opts, pick)
}

// benchSessions sets the default number of sessions on GPUs. With 12 sessions the interval of a gain is four times
// narrower than with 3 (stat.RatioReach).
const benchSessions = 12

func (f *benchFlags) options(b kernels.Backend) (*sweep.Options, error) {
	o, err := f.problem.options(b.Machine(), b.Kernels())
	if err != nil {
		return nil, err
	}
	if err := f.beside.apply(o.Problems, f.problem.model); err != nil {
		return nil, err
	}
	accepted, err := ep.ParsePrecision(f.precision)
	if err != nil {
		return nil, badInput(fmt.Errorf("--%w", err))
	}
	if o.Sessions = f.sessions; o.Sessions == sweep.DefaultSessions && b.Machine().GPUs > 0 {
		o.Sessions = benchSessions
	}
	for i, p := range o.Problems {
		if sweep.ReducesPrecision(b.Kernels(), p) {
			o.Problems[i].Precision = accepted
		}
	}
	return o, nil
}

// picker returns the function that chooses the config of each problem. With --config it removes from `opts` the
// problems to which the config does not apply.
func (f *benchFlags) picker(b kernels.Backend, opts *sweep.Options) (sweep.Picker, error) {
	switch {
	case f.config != "" && f.table != "":
		return nil, usagef("--config and --table: give one of them")
	case f.config != "":
		kept, configs, err := readConfigs("--config", b, opts.Problems, f.config)
		opts.Problems = kept
		return func(p ep.Problem, _ ep.Class) (ep.Config, string, error) { return configs[p][0], "", nil }, err
	case f.table != "":
		return fromTable(b, "--table", f.table)
	}
	return func(ep.Problem, ep.Class) (ep.Config, string, error) { return ep.Config{}, "", nil }, nil
}

// fromTable returns a picker that takes configs from a table of this machine.
func fromTable(b kernels.Backend, flag, path string) (sweep.Picker, error) {
	t, err := loadTable(path, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if t.Header.Machine.Key() != b.Machine().Key() {
		return nil, withCode(exitNotComparable, fmt.Errorf("%s: the table was made on %s, this machine is %s", flag, t.Header.Machine.Key(), b.Machine().Key()))
	}
	set, check := table.Overlay(table.Source{Name: "table", Table: t}), legalAmong(b.Kernels())
	return func(p ep.Problem, class ep.Class) (ep.Config, string, error) {
		if len(t.Rows) > 0 {
			p.Objective = t.Rows[0].Key.Objective
		}
		a := lookupOf(set, hostOfTable(t.Header), p)(p.Tokens, class)
		if a.Config.IsDefault() {
			return a.Config, answerText[a.Reason], nil
		}
		if err := check(b.Machine(), p, a.Config); err != nil {
			return ep.Config{}, fmt.Sprintf("the table's config cannot run here, so the default runs: %v", err), nil
		}
		return kernels.Current(b.Kernels(), a.Config), answerText[a.Reason], nil // the row may be from an earlier build
	}, nil
}

var answerText = map[table.Reason]string{
	table.Exact:     "the table has a row for it",
	table.Fallback:  "the table answers with the row of another problem",
	table.Kept:      "the table keeps the default",
	table.Halves:    "the table answers with the rows of dispatch and combine",
	table.Uncovered: "the table has no row for it, so the default runs",
	table.Illegal:   "the rows of dispatch and combine do not work together, so the default runs",
	table.Refused:   "the table may not be used for it, so the default runs",
}

type recorder struct {
	dir     *record.Dir
	results []record.Result
}

func (r *recorder) Append(block []record.Result, wall float64) error {
	r.results = append(r.results, block...)
	if r.dir == nil {
		return nil
	}
	return r.dir.Append(block, wall)
}

// recorded calls `measure` and writes the run directory of -o. If `measure` fails, the directory keeps the results up
// to the failure.
func (f *benchFlags) recorded(cmd *cobra.Command, b kernels.Backend, opts *sweep.Options, measure func(sweep.Job) error) (*record.Run, []record.Result, error) {
	run, log := newRun(b, opts, commandLine(cmd, "bench", cmd.Flags().Args()...)), &recorder{}
	if f.out != "" {
		var err error
		if log.dir, err = record.CreateDir(f.out, run); err != nil {
			return nil, nil, badInput(fmt.Errorf("--out: %w", err))
		}
		defer log.dir.Close()
	}
	err := measure(sweep.Job{Rounds: f.rounds, Sessions: opts.Policy(b.Machine()).Sessions, Log: log, Run: run})
	if log.dir != nil && (err == nil || len(run.Searches) > 0) {
		err = errors.Join(err, log.dir.WriteRun(run))
	}
	return run, log.results, err
}

func (f *benchFlags) measure(cmd *cobra.Command, b kernels.Backend, opts *sweep.Options, pick sweep.Picker) error {
	var over sweep.Picker
	if f.over != "" {
		var err error
		if over, err = fromTable(b, "--over", f.over); err != nil {
			return err
		}
	}
	if f.explain {
		return f.explained(cmd, b, opts, pick)
	}
	f.noteBand(cmd, b, opts)
	run, _, stopped := f.recorded(cmd, b, opts, func(j sweep.Job) error {
		j.Over = over
		return sweep.Bench(cmd.Context(), b, opts, j, pick)
	})
	if stopped != nil && (run == nil || len(run.Searches) == 0) {
		return stopped
	}
	f.tables.lead = run.Rehearsal()
	tables := []reports.Table{reports.Measured(run)}
	if t, ok := reports.BesideTable(run); ok {
		tables = append(tables, t)
	}
	if err := f.tables.print(cmd, tables...); err != nil {
		return err
	}
	if stopped != nil {
		return fmt.Errorf("stopped with %d of %d cases done: %w", len(run.Searches), len(opts.Problems)*len(opts.Distributions), stopped)
	}
	return f.verdict(cmd, run)
}

func (f *benchFlags) noteBand(cmd *cobra.Command, b kernels.Backend, opts *sweep.Options) {
	policy := opts.Policy(b.Machine())
	if f.out == "" || policy.Sessions < minSessions {
		return
	}
	if note := bandNote(policy.Sessions, b.Machine().SessionSpread(), policy.Band); note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
}

// bandNote returns a note if `band` is too narrow for compare, else "". A wide enough band makes compare say "same" for
// most pairs of equally fast runs with `sessions` sessions. The argument `spread` is the relative standard deviation of
// times between sessions.
func bandNote(sessions int, spread, band float64) string {
	decided := stat.DecidedBand(sessions, spread)
	if decided <= band {
		return ""
	}
	return fmt.Sprintf("note: times differ by %.0f %% from session to session. For two runs of %d sessions, compare needs a band of at least %.1f %%; for two runs of %d sessions, it needs %.1f %%. The default band is %.1f %%: give compare a wider --band, or use bench --ab",
		100*spread, sessions, 100*decided, maxSessions, 100*stat.DecidedBand(maxSessions, spread), 100*band)
}

// verdict returns exit code 3 if a config failed.
func (f *benchFlags) verdict(cmd *cobra.Command, run *record.Run) error {
	for _, line := range reports.GatherReasons(run.Searches, func(s *record.Search) string { return s.Decision.Reason }) {
		fmt.Fprintln(cmd.ErrOrStderr(), line)
	}
	for _, o := range run.Searches {
		if !o.OK() {
			return withCode(exitWrong, fmt.Errorf("%s failed: %s", o.Decision.Config.Key(), o.Decision.Reason))
		}
	}
	return nil
}
