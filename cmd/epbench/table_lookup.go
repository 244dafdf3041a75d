package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func newTableLookup() *cobra.Command {
	var ask queryFlags
	var out tableFlags
	cmd := &cobra.Command{
		Use:   "lookup",
		Short: "Say which config a runtime would be told to launch",
		Long: `Say for each op, dtype, token count and routing which config a runtime would be
told to launch, and why. Outside what was measured the answer is the default, or,
where the table has a fallback, the nearest row.`,
		Example: `  epbench table lookup --table run --op dispatch --tokens 16 --routing skewed
  epbench table lookup --table h200x4 --model deepseek-v3 --tokens 128
  epbench table lookup --table run --tokens 1:4096:x2 --config d7f2`,
		Args: cobra.NoArgs,
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
	columns := append(append(keyColumns(), reports.Numbers("tokens", "")), configColumns()...)
	columns = append(columns, reports.Words("reason"), reports.Words("differs in").Dropped(2))
	t := reports.Table{Name: "answers", Columns: append(append(columns, gainColumns()...),
		reports.Words("verified").Dropped(12), reports.Words("source").Dropped(20))}
	for _, k := range q.keys {
		p := k.Problem(q.maxTokens)
		set := q.narrow(k)
		ask := lookupOf(q.set, q.host, p)
		for _, n := range q.tokens {
			a := ask(n, k.Routing)
			if !q.isConfig(q.header(a), k, n, a.Config) {
				continue
			}
			cells := append(keyCells(k), reports.Int(n))
			cells = append(cells, spelled(q.header(a), k, n, a.Config)...)
			cells = append(cells, reports.Str(string(a.Reason)), reports.Str(differsIn(a.Differs, a.Row)))
			t.Add(append(append(cells, gainCells(a.Row)...), verifiedCell(a), reports.Str(a.Source))...)
			switch {
			case a.Reason == table.Halves:
				q.note("halves: no row covers the pair; the configs of its dispatch and its combine answer, tuned apart and never timed together")
			case a.Row == nil:
				q.note(missText(set, k, n))
			case a.Reason == table.Fallback:
				q.note("fallback: the row of another problem answers; its gain was measured there")
			}
		}
	}
	t.Notes = q.notes
	return t
}

// lookupOf resolves a problem; a pair without a row is answered by its halves.
func lookupOf(set *table.Set, h table.Host, p ep.Problem) func(int, ep.Class) *table.Answer {
	own := set.Resolve(h, p)
	if p.Op != ep.Pair {
		return own.Lookup
	}
	p.Op = ep.Dispatch
	dispatch := set.Resolve(h, p)
	p.Op = ep.Combine
	combine := set.Resolve(h, p)
	return func(n int, c ep.Class) *table.Answer {
		a := table.LookupPair(own, dispatch, combine, n, c)
		return &a
	}
}

// header is that of the table an answer comes from, else the host's.
func (q *query) header(a *table.Answer) table.Header {
	for _, s := range q.set.Sources() {
		if s.Name == a.Source {
			return s.Table.Header
		}
	}
	return table.Header{Machine: q.host.Machine}
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
