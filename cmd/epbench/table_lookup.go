package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
		Short: "Print the config that a runtime would launch, and why",
		Long: `Print for each op, dtype, token count and routing the config that a runtime would
launch, and why. If no row covers the question, the answer is the default or, if the
table has a fallback, the nearest row.`,
		Example: `  epbench table lookup --table run --op dispatch --tokens 16 --routing skewed
  epbench table lookup --table h200x4 --model deepseek-v3 --tokens 128
  epbench table lookup --table run --tokens 1:4096:x2 --config d7f2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := ask.open(cmd)
			if err != nil {
				return err
			}
			answers := q.answers()
			if err := q.found(answers); err != nil {
				return err
			}
			out.lead = q.lead()
			return out.print(cmd, answers)
		},
	}
	ask.bind(cmd)
	out.bind(cmd)
	return cmd
}

// lead returns a warning if the host has no GPUs, or "".
func (q *query) lead() string {
	ranks := 0
	for _, k := range q.keys {
		ranks = max(ranks, k.Ranks)
	}
	return q.host.Machine.Rehearsal(ranks)
}

// answers looks up every key and token count as a runtime on the host would.
func (q *query) answers() reports.Table {
	columns := append(append(keyColumns(), reports.Numbers("tokens", "").Leading()), reports.ConfigColumns()...)
	columns = append(columns, reports.Words("reason"), reports.Words("differs in").Dropped(2))
	t := reports.Table{Name: "answers", Columns: slices.Concat(columns, gainColumns(), []reports.Column{timedColumn(3)}, triedColumns(), []reports.Column{
		reports.Words("verified").Dropped(12), reports.Words("source").Dropped(20)})}
	var rows []*table.Row
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
			cells = append(cells, reports.Str(reasonText(a)), reports.Str(differsIn(a.Differs, a.Row)))
			row := a.Row
			if a.Reason == table.Illegal {
				q.note(q.whyIllegal(k, n, row))
				row = nil // the default answers, without evidence
			}
			if row != nil {
				rows = append(rows, row)
			}
			t.Add(slices.Concat(cells, gainCells(q.header(a), row), []reports.Cell{timedCell(row, n)}, triedCells(row), []reports.Cell{verifiedCell(row, a), reports.Str(a.Source)})...)
			switch {
			case a.Row != nil || a.Reason == table.Halves || a.Reason == table.Illegal:
				q.qualify(a)
			default:
				q.missed(set, k, n)
			}
		}
	}
	timedNote(&t, rows, "the gain was")
	t.Note(q.explained()...)
	return t
}

// whyIllegal says why a row's config cannot run here. A nil row stands for the two rows of a pair.
func (q *query) whyIllegal(k table.Key, tokens int, row *table.Row) string {
	if row == nil {
		return "illegal: the rows of dispatch and combine do not work on the same memory, so the default answers; tune the pair: epbench sweep --op pair"
	}
	return fmt.Sprintf("illegal: the row for %s %s, %d to %d tokens, cannot run here with %d tokens, so the default answers: %s", k.Op, k.Dispatch, row.Lo, row.Hi, tokens, q.refused(k, tokens, row.Config))
}

func (q *query) found(t reports.Table) error {
	if q.config == "" || len(t.Rows) > 0 {
		return nil
	}
	return usagef("--config %s: no answer has this config; leave --config out to see which there are", q.config)
}

func (q *query) qualify(a *table.Answer) {
	if a.Reason == table.Halves {
		q.note("halves: no row covers the pair; the answer is the configs of its dispatch and its combine, which were tuned separately and never timed together")
	}
	if a.OtherMachine {
		q.note("other machine: the row was measured on other GPUs; its gain was measured there, and another config may be faster here")
	}
	if a.EarlierBuild {
		q.note("measured with an earlier build: the row's kernels have changed since, but its parameters mean the same; table verify certifies the row, --this-build refuses it")
	}
	if a.Reason == table.Fallback {
		q.note("fallback: the row of another problem answers; its gain was measured there")
	}
}

func reasonText(a *table.Answer) string {
	out := string(a.Reason)
	switch {
	case a.Row == nil || a.Row.Evidence.Reason == "":
	case a.Row.Evidence.Reason == string(table.Kept): // sweep writes this for an undecided search
		out += ", undecided"
	default:
		out += ", " + a.Row.Evidence.Reason
	}
	if a.EarlierBuild {
		out += ", measured with an earlier build"
	}
	return out
}

// lookupOf returns the look-up of a problem. If no row covers a pair, the rows of dispatch and combine answer.
func lookupOf(set *table.Set, h table.Host, p ep.Problem) func(int, ep.Class) *table.Answer {
	if p.Op != ep.Pair {
		return set.Resolve(h, p).Lookup
	}
	pairHost := h
	if pairHost.Check == nil {
		pairHost.Check = ofKnownKernels(h.Machine)
	}
	own := set.Resolve(pairHost, p)
	p.Op = ep.Dispatch
	dispatch := set.Resolve(h, p)
	p.Op = ep.Combine
	combine := set.Resolve(h, p)
	return func(n int, c ep.Class) *table.Answer {
		a := table.LookupPair(own, dispatch, combine, n, c)
		return &a
	}
}

// header returns the answering table's header. Without a table it holds only the host's machine.
func (q *query) header(a *table.Answer) table.Header {
	for _, s := range q.set.Sources() {
		if s.Name == a.Source {
			return s.Table.Header
		}
	}
	return table.Header{Machine: q.host.Machine}
}

func verifiedCell(row *table.Row, a *table.Answer) reports.Cell {
	if row == nil {
		return reports.None()
	}
	return reports.Bool(a.Verified)
}

// miss holds unanswered questions that need the same sweep.
type miss struct {
	why                 string
	command             string // flags of that sweep, without the lists below
	ops, dtypes, tokens []string
}

func (q *query) missed(set *table.Set, k table.Key, tokens int) {
	m := miss{why: cmp.Or(set.Nearest(k, tokens), "no table may be used here"), command: sweepFlagsOf(k)}
	at := slices.IndexFunc(q.misses, func(x miss) bool { return x.why == m.why && x.command == m.command })
	if at < 0 {
		at, q.misses = len(q.misses), append(q.misses, m)
	}
	x := &q.misses[at]
	x.ops, x.dtypes, x.tokens = with(x.ops, k.Op), with(x.dtypes, k.Dispatch), with(x.tokens, strconv.Itoa(tokens))
}

func with[T ~string](list []string, word T) []string {
	if slices.Contains(list, string(word)) {
		return list
	}
	return append(list, string(word))
}

func (q *query) explained() []string {
	notes := slices.Clone(q.notes)
	for _, m := range q.misses {
		notes = append(notes, fmt.Sprintf("%s, %s: default: %s; tune it: epbench sweep --op %s%s --dtype %s --tokens %s", strings.Join(m.ops, ", "),
			tokensText(m.tokens), m.why, strings.Join(m.ops, ","), m.command, strings.Join(m.dtypes, ","), strings.Join(m.tokens, ",")))
	}
	return notes
}

func tokensText(counts []string) string {
	if len(counts) == 1 && counts[0] == "1" {
		return ep.Tokens(1)
	}
	return strings.Join(counts, ", ") + " tokens"
}

// sweepFlagsOf returns the flags with which sweep searches a key, without op, dtype and tokens.
func sweepFlagsOf(k table.Key) string {
	c := fmt.Sprintf(" --mode %s --ranks %d --nodes %d --hidden %d --experts %d --topk %d", k.Mode, k.Ranks, k.Nodes, k.Hidden, k.Experts, k.TopK)
	if k.SharedExpert {
		c += " --shared-expert"
	}
	if k.SkipA2A {
		c += " --skip-a2a"
	}
	if k.Precision == ep.Reduced {
		c += " --precision reduced"
	}
	if k.Objective == ep.BesideProduct {
		c += " --beside gemm"
	}
	if k.Layout != ep.LayoutExpert {
		c += " --layout " + k.Layout.String()
	}
	return c
}
