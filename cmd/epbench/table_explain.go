package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
)

func newTableExplain() *cobra.Command {
	var ask queryFlags
	var out tableFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Print the decision ladder behind the answers",
		Long: `For every stretch of token counts print the rows that were looked at, best first:
which one answers, what the others lost to, and the evidence of each. The last
rung is always the default. With --all, also the rungs behind the first few, and
rows that cover other token counts only where another answers.`,
		Example: "  epbench table explain --table RUN --op dispatch --tokens 1:4096",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := ask.open(cmd)
			if err != nil {
				return err
			}
			return out.print(cmd, q.ladder(all))
		},
	}
	ask.bind(cmd)
	out.bind(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show every rung")
	return cmd
}

// rungsShown are enough to see what the answer had to beat.
const rungsShown = 3

// ladder explains every key over the token counts asked for.
func (q *query) ladder(all bool) reports.Table {
	t := reports.Table{Name: "ladder", Columns: []reports.Column{
		reports.Words("op"), reports.Words("format").Dropped(2).Keyed(), reports.Words("routing"), reports.Words("tokens"),
		reports.Numbers("rung", ""), reports.Words("choice"), reports.Words("gives up"), reports.Words("verdict"),
		reports.Words("evidence").Dropped(1), reports.Words("source").Dropped(3),
	}}
	for _, k := range q.keys {
		set := q.narrow(k)
		for _, e := range explained(set, k, q.tokens, all) {
			q.addRungs(&t, set, e)
		}
	}
	t.Notes = q.notes
	return t
}

// explanation is what is shown of the ladder of a stretch of token counts.
type explanation struct {
	table.Explanation
	lo, hi int // both included
	more   bool
}

// explained explains ascending token counts; stretches of which the same is shown are one.
func explained(set *table.Set, k table.Key, tokens []int, all bool) []explanation {
	var out []explanation
	for _, s := range stretches(set, tokens) {
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

// shorten keeps the first rungs of rows that cover the token count, of any rows where
// none does.
func (e *explanation) shorten() {
	if e.Answer.Row != nil {
		e.Rows = slices.DeleteFunc(e.Rows, func(r table.ExplainedRow) bool { return e.lo < r.Row.Lo || e.lo > r.Row.Hi })
	}
	e.more = len(e.Rows) > rungsShown
	e.Rows = e.Rows[:min(len(e.Rows), rungsShown)]
}

// shows reports whether two explanations look alike.
func (e explanation) shows(other explanation) bool {
	return e.more == other.more && slices.EqualFunc(e.Rows, other.Rows, func(a, b table.ExplainedRow) bool {
		return a.Row == b.Row && a.Note == b.Note
	})
}

func (q *query) addRungs(t *reports.Table, set *table.Set, x explanation) {
	add := func(rung reports.Cell, r table.ExplainedRow, choice string) {
		c := reports.Str(r.Note)
		if r.Note == answers {
			c = c.Marked(reports.Good)
		}
		t.Add(reports.Str(string(x.Key.Op)), reports.Str(string(x.Key.Dispatch)), reports.Str(string(x.Key.Routing)), reports.Str(spanText(x.lo, x.hi)),
			rung, reports.Str(choice), reports.Str(givesUp(r.Differs, r.Row)), c,
			reports.Str(evidenceText(r.Row)), reports.Str(r.Source))
	}
	for i, r := range x.Rows {
		if bad := q.illegal(r, x.Explanation); bad != "" {
			r.Note = "illegal here, so default: " + bad
		}
		add(reports.Int(i+1), r, choiceText(r.Row))
	}
	rung, last := reports.Int(len(x.Rows)+1), table.ExplainedRow{Note: "not reached"}
	if x.more {
		add(rung, table.ExplainedRow{Note: "more rows, further behind: --all"}, "")
		rung = reports.None()
	}
	if x.Answer.Row == nil {
		last.Note = answers
		q.note(missText(set, x.Key, x.Tokens))
	}
	add(rung, last, "default")
}

// givesUp names the fields in which a row differs from what was asked, and what it has
// there.
func givesUp(differs []string, row *table.Row) string {
	var out []string
	for _, f := range differs {
		out = append(out, f+"="+row.Key.Words()[slices.Index(table.Fields(), f)])
	}
	return strings.Join(out, " ")
}

// answers is the verdict of the rung that a look-up takes.
const answers = "answers"

// illegal says why the row that answers cannot run on the host.
func (q *query) illegal(r table.ExplainedRow, x table.Explanation) string {
	if r.Note != answers || q.host.Check == nil || r.Row.Config.IsDefault() {
		return ""
	}
	p := x.Key.Problem(min(r.Row.Hi, q.maxTokens))
	p.MaxTokens = max(q.maxTokens, 1)
	if err := q.host.Check(q.host.Machine, p, r.Row.Config); err != nil {
		return err.Error()
	}
	return ""
}

// stretches groups ascending token counts between which no row begins or ends;
// all of a stretch have one ladder.
func stretches(set *table.Set, tokens []int) [][2]int {
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
