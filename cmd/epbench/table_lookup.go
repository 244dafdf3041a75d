package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
)

func newTableLookup() *cobra.Command {
	var ask queryFlags
	var out tableFlags
	cmd := &cobra.Command{
		Use:   "lookup",
		Short: "Answer what a runtime would be told",
		Long: `Answer, for each op, format, token count and routing, which configuration a
runtime would be told to launch, and for which reason. Outside what was measured
the answer is that of the nearest row where the table may give up what differs, else
default.`,
		Example: "  epbench table lookup --table RUN --op dispatch --tokens 16 --routing skewed",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := ask.open(cmd)
			if err != nil {
				return err
			}
			return out.print(cmd, q.answers())
		},
	}
	ask.bind(cmd)
	out.bind(cmd)
	return cmd
}

// answers looks every key and token count up as a runtime would: resolved for
// the host, legality included.
func (q *query) answers() reports.Table {
	columns := append(keyColumns(), reports.Numbers("tokens", ""), reports.Words("config"), reports.Words("reason"), reports.Words("gives up"))
	t := reports.Table{Name: "answers", Columns: append(append(columns, gainColumns()...),
		reports.Words("verified"), reports.Words("source").Dropped(11))}
	for _, k := range q.keys {
		p := k.Problem(q.maxTokens)
		set := q.narrow(k)
		resolved := q.set.Resolve(q.host, p)
		for _, n := range q.tokens {
			a := resolved.Lookup(n, k.Routing)
			cells := append(keyCells(k), reports.Int(n), reports.Str(a.Config.Key()), reports.Str(string(a.Reason)), reports.Str(givesUp(a.Differs, a.Row)))
			t.Add(append(append(cells, gainCells(a.Row)...), verifiedCell(a), reports.Str(a.Source))...)
			switch {
			case a.Row == nil:
				q.note(missText(set, k, n))
			case a.Reason == table.Fallback:
				q.note("fallback: another problem's row answers, and the gain is what was measured there")
			}
		}
	}
	t.Notes = q.notes
	return t
}

func verifiedCell(a *table.Answer) reports.Cell {
	if a.Row == nil {
		return reports.None()
	}
	return reports.Bool(a.Verified)
}

// missText says why a question has no row and which command would tune it.
func missText(set *table.Set, k table.Key, tokens int) string {
	why := set.Nearest(k, tokens)
	if why == "" {
		why = "no table may be used here"
	}
	return fmt.Sprintf("%s, %d tokens: default: %s; tune it: %s", k.Op, tokens, why, sweepCommand(k, tokens))
}
