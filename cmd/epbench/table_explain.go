package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func newTableExplain() *cobra.Command {
	var ask queryFlags
	var out tableFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Print the rows that may answer, best first, and why one does",
		Long: `Print the rows that may answer for every range of token counts, best first: which one
answers, why the others do not, and the evidence of each. The default comes last.
Without --all, print only the first few rows. Rows for other token counts are printed
only if no row answers.`,
		Example: `  epbench table explain --table run --op dispatch --tokens 1:4096
  epbench table explain --table h200x4 --model deepseek-v3 --tokens 64
  epbench table explain --table run --tokens 64 --config d7f2 --all`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := ask.open(cmd)
			if err != nil {
				return err
			}
			rows := q.explain(all)
			if err := q.found(rows); err != nil {
				return err
			}
			out.lead = q.lead()
			return out.print(cmd, rows)
		},
	}
	ask.bind(cmd)
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.BoolVar(&all, "all", false, "print every row") })
	out.bind(cmd)
	return cmd
}

const explainedRows = 3 // printed at most, without --all

func (q *query) explain(all bool) reports.Table {
	t := reports.Table{Name: "explain", Columns: slices.Concat([]reports.Column{
		reports.Words("op"), reports.Words("dtype").Dropped(3).Keyed(), reports.Words("routing").Keyed(), reports.Words("tokens"),
		reports.Numbers("place", "")}, reports.ConfigColumns(), gainColumns(), []reports.Column{reports.Words("differs in").Dropped(2).Keyed(),
		reports.Words("result"), reports.Words("evidence").Dropped(1).Keyed(), reports.Words("source").Dropped(20)}),
	}
	for _, k := range q.keys {
		set := q.narrow(k)
		for _, e := range explained(set, k, q.tokens, all) {
			q.addRows(&t, set, e)
		}
	}
	t.Notes = q.explained()
	return t
}

type explanation struct {
	table.Explanation
	lo, hi int  // first and last token count
	more   bool // some rows were left out
}

// explained returns one explanation for each range of token counts that has the same rows.
func explained(set *table.Set, k table.Key, tokens []int, all bool) []explanation {
	var out []explanation
	for _, s := range tokenRanges(set, tokens) {
		e := explanation{Explanation: set.Explain(k, s[0]), lo: s[0], hi: s[1]}
		if !all {
			e.shorten()
		}
		if n := len(out) - 1; n >= 0 && out[n].hi+1 == e.lo && out[n].shows(e) {
			out[n].hi = e.hi
			continue
		}
		out = append(out, e)
	}
	return out
}

// shorten keeps at most explainedRows rows. If a row answers, rows for other token counts are dropped.
func (e *explanation) shorten() {
	if e.Answer.Row != nil {
		e.Rows = slices.DeleteFunc(e.Rows, func(r table.ExplainedRow) bool { return e.lo < r.Row.Lo || e.lo > r.Row.Hi })
	}
	e.more = len(e.Rows) > explainedRows
	e.Rows = e.Rows[:min(len(e.Rows), explainedRows)]
}

func (e explanation) shows(other explanation) bool {
	return e.more == other.more && slices.EqualFunc(e.Rows, other.Rows, func(a, b table.ExplainedRow) bool {
		return a.Row == b.Row && a.Note == b.Note
	})
}

func (q *query) addRows(t *reports.Table, set *table.Set, x explanation) {
	add := func(place reports.Cell, r table.ExplainedRow, config []reports.Cell) {
		c := reports.Str(r.Note)
		if r.Note == answers {
			c = c.Marked(reports.Good)
		}
		cells := []reports.Cell{reports.Str(string(x.Key.Op)), reports.Str(string(x.Key.Dispatch)), reports.Str(string(x.Key.Routing)), reports.Str(spanText(x.lo, x.hi)), place}
		t.Add(slices.Concat(cells, config, gainCells(q.header(&table.Answer{Source: r.Source}), r.Row), []reports.Cell{reports.Str(differsIn(r.Differs, r.Row)), c, evidenceCell(r.Row), reports.Str(r.Source)})...)
	}
	for i, r := range x.Rows {
		h := q.header(&table.Answer{Source: r.Source})
		if !q.isConfig(h, r.Row.Key, r.Row.Hi, r.Row.Config) {
			continue
		}
		if bad := q.illegal(r, x.Explanation); bad != "" {
			r.Note = "illegal here, so default: " + bad
		}
		add(reports.Int(i+1), r, configCells(h, r.Row))
	}
	if q.config != "" {
		return
	}
	place, last := reports.Int(len(x.Rows)+1), table.ExplainedRow{Note: "not reached"}
	if x.more {
		add(place, table.ExplainedRow{Note: "more rows: --all"}, configCells(table.Header{}, nil))
		place = reports.None()
	}
	if x.Answer.Row == nil {
		last.Note = answers
		q.missed(set, x.Key, x.Tokens)
	}
	add(place, last, spelled(q.header(&x.Answer), x.Key, x.Tokens, ep.Config{}))
}

// differsIn returns the fields in which a row differs from the question. A nil row stands for the two rows of a pair.
func differsIn(differs []string, row *table.Row) string {
	if row == nil {
		return strings.Join(differs, " ")
	}
	var out []string
	for _, f := range differs {
		out = append(out, f+"="+row.Key.Words()[slices.Index(table.Fields(), f)])
	}
	return strings.Join(out, " ")
}

const answers = "answers"

// illegal returns why the config of the answering row cannot run on the host, or "". For the other rows it returns "".
func (q *query) illegal(r table.ExplainedRow, x table.Explanation) string {
	if r.Note != answers || q.host.Check == nil || r.Row.Config.IsDefault() {
		return ""
	}
	return q.refused(x.Key, x.Tokens, r.Row.Config)
}

// refused returns why a config cannot run on the host, or "".
func (q *query) refused(k table.Key, tokens int, c ep.Config) string {
	p, check := k.Problem(tokens), q.host.Check
	p.MaxTokens = max(q.maxTokens, 1)
	if check == nil {
		check = ofKnownKernels(q.host.Machine)
	}
	if check == nil {
		return "its kernels are unknown"
	}
	if err := check(q.host.Machine, p, c); err != nil {
		return err.Error()
	}
	return ""
}

// tokenRanges groups ascending token counts so that no row begins or ends within a group.
func tokenRanges(set *table.Set, tokens []int) [][2]int {
	var breaks []int
	for _, s := range set.Sources() {
		for _, r := range s.Table.Rows {
			breaks = append(breaks, r.Lo, r.Hi+1)
		}
	}
	slices.Sort(breaks)
	breaks = slices.Compact(breaks)
	var out [][2]int
	last := -1
	for _, n := range tokens {
		at, exact := slices.BinarySearch(breaks, n)
		if exact {
			at++
		}
		if k := len(out) - 1; k >= 0 && at == last && n == out[k][1]+1 {
			out[k][1] = n
			continue
		}
		out, last = append(out, [2]int{n, n}), at
	}
	return out
}
