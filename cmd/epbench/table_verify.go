package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/sweep/receipt"
	"github.com/epbench/epbench/tune/table"
)

type verifyOptions struct {
	from          sourceFlags
	out           tableFlags
	backend       string
	path          string
	rows          int
	seed          uint64
	otherMachines bool
}

// ownRows keeps the rows whose kernels this build has. They may have been measured with an earlier build: verify
// measures them with this build, and its receipt then certifies them.
func ownRows(cmd *cobra.Command, t *table.Table, h table.Host) *table.Table {
	own := *t
	own.Rows = slices.DeleteFunc(slices.Clone(t.Rows), func(r table.Row) bool { return !h.Accepts(t.Header, r) })
	if n := len(t.Rows) - len(own.Rows); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d rows are left out: they need kernels that this build does not have\n", n, len(t.Rows))
	}
	return &own
}

func newTableVerify() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Measure rows against the default here, and write a receipt",
		Long: `Measure rows of a table again, each with the default in the same rounds, and write the
results to a file, the receipt. Exit code 3: a row is slower than the default, or wrong.
Exit code 4: a row is undecided. Exit code 5: the table is for another machine or other
kernels.`,
		Example: `  epbench table verify --table run --rows 3
  epbench table verify --table table.json --rows 0 -o receipt.json
  epbench table verify --backend cuda`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.from.bindFile(cmd, "default: the table for this machine")
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.IntVar(&o.rows, "rows", 5, "`N` rows to measure, spread evenly over all rows whose config is not the default; 0: all of them")
		s.Uint64Var(&o.seed, "seed", 1, "`SEED` number that routing and payload are drawn from")
	})
	bindOtherMachines(cmd, &o.otherMachines)
	addBackendFlag(cmd, &o.backend)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&o.path, "out", "o", "receipt.json", "`FILE` receipt to write")
	})
	o.out.bind(cmd)
	return cmd
}

func (o *verifyOptions) run(cmd *cobra.Command) error {
	if o.rows < 0 {
		return usagef("--rows: %d is below 0; 0 means all", o.rows)
	}
	set, err := o.from.open()
	if err != nil {
		return err
	}
	b, err := backendOf(cmd, o.backend)
	if err != nil {
		return err
	}
	defer b.Close()
	host := hostOf(b)
	host.OtherMachines = o.otherMachines
	t, err := tableFor(set, host)
	if err != nil {
		return withCode(exitNotComparable, err)
	}
	// Differences too small to count for the table's sweep do not count here either.
	policy := measure.PolicyFor(host.Machine).Coarser(t.Header.Band)
	r := &receipt.Receipt{
		Table: t.ID, Tool: version, Created: time.Now(), Machine: host.Machine, ABI: host.ABI, Policy: policy.String(), Protocol: record.Protocol,
	}
	// This first write finds a bad path before anything is measured.
	if err := writeOut(cmd, o.path, r); err != nil {
		return err
	}
	matcher := sweep.NewRowVerifier(b, policy, t.Header, o.seed)
	stopped := o.check(cmd, matcher, receipt.Pick(ownRows(cmd, t, host), o.rows), r)
	if stopped != nil && len(r.Checks) == 0 {
		return stopped
	}
	o.out.lead = leadOfTable(t)
	checks := checkTable(t.Header, r)
	checks.Notes = append(checks.Notes, fmt.Sprintf("receipt %.12s in %s", r.ID, o.path))
	for _, d := range t.Doubts(host) {
		checks.Warn("unverified: %s", d)
	}
	if err := errors.Join(o.out.print(cmd, checks), stopped); err != nil {
		return err
	}
	return claimCode(r.Worst())
}

// tableFor returns the last table that may be used on a host.
func tableFor(set *table.Set, h table.Host) (*table.Table, error) {
	var refused []string
	sources := set.Sources()
	for _, s := range slices.Backward(sources) {
		if len(s.Table.Rows) == 0 {
			return s.Table, nil
		}
		err := s.Table.Refusal(h, s.Table.Rows[0].Key.Problem(0))
		if err == nil {
			return s.Table, nil
		}
		if len(sources) == 1 {
			return nil, fmt.Errorf("%s: %w", sourceName(s), err)
		}
		refused = append(refused, sourceName(s)+" ("+s.Table.Header.Machine.Name+")")
	}
	if len(refused) == 0 {
		return nil, errors.New("there is no table; epbench sweep makes one")
	}
	return nil, fmt.Errorf("no table is for this machine; the tables are %s", strings.Join(refused, ", "))
}

func (o *verifyOptions) check(cmd *cobra.Command, m *sweep.RowVerifier, rows []*table.Row, r *receipt.Receipt) error {
	for i, row := range rows {
		fmt.Fprintf(cmd.ErrOrStderr(), "row %d of %d: %s, %s tokens, %s\n", i+1, len(rows), row.Key.Op, spanText(row.Lo, row.Hi), row.Key.Routing)
		checks, err := receipt.Row(cmd.Context(), m, row)
		r.Checks = append(r.Checks, checks...)
		if bad := writeOut(cmd, o.path, r); bad != nil {
			return bad
		}
		if err != nil {
			return fmt.Errorf("row %d of %d: %w; the rows before it are in %s", i+1, len(rows), err, o.path)
		}
	}
	return nil
}

func checkTable(h table.Header, r *receipt.Receipt) reports.Table {
	t := reports.Table{Name: "checks", Columns: append(keyColumns(), reports.Numbers("tokens", "").Leading(), reports.Words("routing drawn").Dropped(2),
		reports.ConfigColumns()[0], reports.ConfigColumns()[1], reports.Words("claimed"), reports.Words("measured"), reports.Words("band").Dropped(1),
		reports.Words("claim"), reports.Words("reason"))}
	marks := map[receipt.Claim]reports.Mark{receipt.Holds: reports.Good, receipt.Slower: reports.Bad, receipt.Failed: reports.Bad}
	for _, c := range r.Checks {
		measured := reports.None()
		if c.Gain.Mid > 0 {
			measured = reports.Str(gainText(c.Gain))
		}
		cells := append(keyCells(c.Key), reports.Int(c.Tokens), reports.Str(c.Routing))
		t.Add(append(append(cells, spelled(h, c.Key, c.Tokens, c.Config)...),
			reports.Str(gainText(c.Claimed)), measured,
			reports.Str(c.Band.Short()), reports.Str(string(c.Claim)).Marked(marks[c.Claim]), reports.Str(c.Reason))...)
	}
	if len(r.Checks) == 0 {
		t.Notes = append(t.Notes, "every row has the default, so there is nothing to measure")
	}
	return t
}

func gainText(i record.Interval) string {
	return fmt.Sprintf("%.3f [%.3f, %.3f]", i.Mid, i.Low, i.High)
}

func claimCode(worst receipt.Claim) error {
	switch worst {
	case receipt.Failed, receipt.Slower:
		return withCode(exitWrong, fmt.Errorf("table verify: a row is worse than the default: %s", worst))
	case receipt.Undecided:
		return withCode(exitUndecided, fmt.Errorf("table verify: a row is undecided against the default"))
	}
	return nil
}
