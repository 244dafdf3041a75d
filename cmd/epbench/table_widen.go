package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep/receipt"
	"github.com/epbench/epbench/tune/table"
)

func newTableWiden() *cobra.Command {
	var out tableFlags
	var path string
	cmd := &cobra.Command{
		Use:   "widen TABLE RECEIPT... -o OUT",
		Short: "Widen the intervals of gains to cover what other hosts measured",
		Long: `Write TABLE with wider intervals. A RECEIPT is a file that table verify wrote, on another
host or on another day. The interval of each row's gain then also covers the gains in
the receipts. A row that was slower than the default in a receipt, or failed, is left
out. Every check that changes a row is printed.`,
		Example: `  epbench table verify --table run --rows 0 -o receipt.json
  epbench table widen run receipt.json -o table.json
  epbench table widen table.json host1.json host2.json -o table.json`,
		Args: minArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if path == "" {
				return usagef("-o FILE is required: the table with wider intervals")
			}
			t, err := widenTable(cmd, args[0], args[1:], path)
			if err != nil {
				return err
			}
			return out.print(cmd, t)
		},
	}
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&path, "out", "o", "", "`FILE` file to write") })
	out.bind(cmd)
	return cmd
}

func widenTable(cmd *cobra.Command, tablePath string, receipts []string, path string) (out reports.Table, err error) {
	t, err := loadTable(tablePath, false)
	if err != nil {
		return out, err
	}
	var read []*receipt.Receipt
	for _, name := range receipts {
		r, err := readReceipt(name)
		if err != nil {
			return out, badInput(err)
		}
		read = append(read, r)
	}
	wider, changes, err := receipt.Widen(t, read)
	if err != nil {
		return out, withCode(exitNotComparable, err)
	}
	if err := writeOut(cmd, path, wider); err != nil {
		return out, err
	}
	out = changeTable(changes)
	out.Notes = append(out.Notes, fmt.Sprintf("%d checks in the receipts belong to rows of %s; the new table %s keeps %d of the %d rows", len(changes), tablePath, path, len(wider.Rows), len(t.Rows)))
	return out, nil
}

const writesReceipt = "epbench table verify -o FILE writes a receipt"

func readReceipt(name string) (*receipt.Receipt, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, ep.FileError(name, err, writesReceipt)
	}
	defer in.Close()
	r, err := receipt.Read(in)
	return r, ep.FileError(name, err, writesReceipt)
}

func changeTable(changes []receipt.Change) reports.Table {
	t := reports.Table{Name: "changes", Columns: append(keyColumns(), reports.Numbers("tokens", "").Leading(),
		reports.Words("claimed"), reports.Words("measured"), reports.Words("claims now"), reports.Words("effect"))}
	for _, c := range changes {
		if c.Effect == receipt.Covered {
			continue
		}
		k, now := c.Check, reports.None()
		if c.Effect == receipt.Widened {
			now = reports.Str(gainText(claimed(c.After)))
		}
		cells := append(keyCells(k.Key), reports.Int(k.Tokens))
		t.Add(append(cells, reports.Str(gainText(claimed(c.Before))), reports.Str(gainText(k.Gain)), now, reports.Str(string(c.Effect)))...)
	}
	if len(t.Rows) == 0 {
		t.Notes = append(t.Notes, "every interval covers what the receipts measured")
	}
	return t
}

func claimed(e table.Evidence) record.Interval {
	return record.Interval{Mid: e.Gain, Low: e.GainLow, High: e.GainHigh}
}
