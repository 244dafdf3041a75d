package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/plan"
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
rung is always the default. Rows that cover other token counts only are shown
where nothing else is, or with --all.`,
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
	out.bindAs(cmd, "table-format")
	cmd.Flags().BoolVar(&all, "all", false, "also show rows that cover other token counts only")
	return cmd
}

// ladder explains every key over the token counts asked for.
func (q *query) ladder(all bool) reports.Table {
	t := reports.Table{Name: "ladder", Columns: []reports.Column{
		reports.Words("op"), reports.Words("format").Dropped(2).Keyed(), reports.Words("routing"), reports.Words("tokens"),
		reports.Numbers("rung", ""), reports.Words("choice"), reports.Words("gives up"), reports.Words("verdict"),
		reports.Words("evidence").Dropped(1), reports.Words("source").Dropped(3),
	}}
	for _, k := range q.keys {
		set := q.narrow(k)
		for _, s := range stretches(set, q.tokens) {
			x := set.Explain(k, s[0])
			if !all && x.Answer.Row != nil {
				x.Rungs = slices.DeleteFunc(x.Rungs, func(r plan.Rung) bool { return s[0] < r.Row.Lo || s[0] > r.Row.Hi })
			}
			q.addRungs(&t, set, x, spanText(s[0], s[1]))
		}
	}
	t.Notes = q.notes
	return t
}

func (q *query) addRungs(t *reports.Table, set *plan.Set, x plan.Explanation, span string) {
	add := func(rung int, r plan.Rung, choice string) {
		c := reports.Str(r.Verdict)
		if r.Verdict == answers {
			c = c.Marked(reports.Good)
		}
		t.Add(reports.Str(string(x.Key.Op)), reports.Str(string(x.Key.Dispatch)), reports.Str(string(x.Key.Routing)), reports.Str(span),
			reports.Int(rung), reports.Str(choice), reports.Str(strings.Join(r.Differs, " ")), c,
			reports.Str(evidenceText(r.Row)), reports.Str(r.Source))
	}
	for i, r := range x.Rungs {
		if bad := q.illegal(r, x); bad != "" {
			r.Verdict = "illegal here, so default: " + bad
		}
		add(i+1, r, choiceText(r.Row))
	}
	last := plan.Rung{Verdict: "not reached"}
	if x.Answer.Row == nil {
		last.Verdict = answers
		q.note(missText(set, x.Key, x.Tokens))
	}
	add(len(x.Rungs)+1, last, "default")
}

// answers is the verdict of the rung that a look-up takes.
const answers = "answers"

// illegal says why the row that answers cannot run on the host.
func (q *query) illegal(r plan.Rung, x plan.Explanation) string {
	if r.Verdict != answers || q.host.Check == nil || r.Row.Config.IsDefault() {
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
func stretches(set *plan.Set, tokens []int) [][2]int {
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
