package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// queryFlags are the flags of commands that ask tables something.
type queryFlags struct {
	sourceFlags
	problem   problemFlags
	machine   string
	backend   string
	precision string
}

func (f *queryFlags) bind(cmd *cobra.Command) {
	f.sourceFlags.bind(cmd)
	f.problem.bind(cmd)
	s := cmd.Flags()
	s.StringVar(&f.machine, "machine", "", "machine to ask for: table (its own; default with --table), host, or a JSON file with one (run.json, table.json)")
	s.StringVar(&f.backend, "backend", "auto", "backend that identifies --machine host")
	s.StringVar(&f.precision, "precision", "full", "precision to accept: full, or reduced")
	routing := s.Lookup("routing")
	routing.Usage = "routing classes (" + tableClasses() + ") or specs to classify, comma-separated"
	routing.DefValue, f.problem.routing = string(ep.AllRoutings), string(ep.AllRoutings)
	s.Lookup("model").Usage += "; default: what all rows of the table agree on"
}

func tableClasses() string { return strings.Join(names(ep.Classes()), ", ") }

// names are the words of an enumeration.
func names[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// query is a set of tables, a host, and what to ask.
type query struct {
	set       *table.Set
	host      table.Host
	notes     []string // refused and unverified tables, misses
	keys      []table.Key
	tokens    []int
	maxTokens int // capacity of the buffers
}

// open reads the tables and expands the flags.
func (f *queryFlags) open(cmd *cobra.Command) (*query, error) {
	set, err := f.sourceFlags.open()
	if err != nil {
		return nil, err
	}
	host, err := f.host(cmd, set)
	if err != nil {
		return nil, err
	}
	f.adopt(cmd, set, host.Machine)
	q := &query{set: set, host: host}
	if q.tokens, err = ep.ParseInts(f.problem.tokens); err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	q.maxTokens = max(f.problem.maxTokens, slices.Max(q.tokens))
	problems, err := f.problem.problems(host.Machine)
	if err != nil {
		return nil, err
	}
	accepted, err := ep.ParsePrecision(f.precision)
	if err != nil {
		return nil, badInput(fmt.Errorf("--%w", err))
	}
	for _, p := range problems {
		p.Precision = accepted
		if p.Tokens != problems[0].Tokens {
			continue // one key for all token counts
		}
		classes, err := f.classes(p)
		if err != nil {
			return nil, err
		}
		for _, c := range classes {
			q.keys = append(q.keys, table.KeyOf(p, c))
		}
	}
	return q, nil
}

// narrow picks the tables that may answer a key; notes are kept once.
func (q *query) narrow(k table.Key) *table.Set {
	set, notes := q.set.For(q.host, k.Problem(0))
	for _, n := range notes {
		q.note(n)
	}
	return set
}

func (q *query) note(text string) {
	if !slices.Contains(q.notes, text) {
		q.notes = append(q.notes, text)
	}
}

// classes reads --routing: names of classes, or routings to draw and classify.
func (f *queryFlags) classes(p ep.Problem) ([]ep.Class, error) {
	var out []ep.Class
	for _, word := range splitList(f.problem.routing) {
		c, err := ep.ParseClass(word)
		if err != nil {
			d, bad := workloads.Parse(word)
			if bad != nil {
				return nil, usagef("--routing: %q is neither a class (%s) nor a routing: %w", word, tableClasses(), bad)
			}
			w, bad := workloads.New(d, p, f.problem.seed)
			if bad != nil {
				return nil, badInput(fmt.Errorf("--%w", bad))
			}
			c = w.Class
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, usagef("--routing: empty; try all")
	}
	return out, nil
}

// adopt fills what the user left open from the machine's rows, where all
// agree, so that a table of one problem needs no flags that repeat it.
func (f *queryFlags) adopt(cmd *cobra.Command, set *table.Set, m ep.Machine) {
	var rows []table.Row
	for _, s := range set.Sources() {
		if s.Table.Header.Machine.Key() == m.Key() {
			rows = append(rows, s.Table.Rows...)
		}
	}
	open := func(flag string) bool { return len(rows) > 0 && !cmd.Flags().Changed(flag) }
	p := &f.problem
	model := !cmd.Flags().Changed("model")
	for _, n := range []struct {
		flag  string
		field *int
		of    func(table.Key) int
		free  bool
	}{
		{"hidden", &p.hidden, func(k table.Key) int { return k.Hidden }, model},
		{"experts", &p.experts, func(k table.Key) int { return k.Experts }, model},
		{"topk", &p.topK, func(k table.Key) int { return k.TopK }, model},
		{"ranks", &p.ranks, func(k table.Key) int { return k.Ranks }, true},
		{"nodes", &p.nodes, func(k table.Key) int { return k.Nodes }, true},
	} {
		if values := distinct(rows, n.of); n.free && open(n.flag) && len(values) == 1 {
			*n.field = values[0]
		}
	}
	if modes := distinct(rows, func(k table.Key) ep.Mode { return k.Mode }); open("mode") && len(modes) == 1 {
		p.mode = string(modes[0])
	}
	if open("op") {
		p.ops = strings.Join(names(distinct(rows, func(k table.Key) ep.Op { return k.Op })), ",")
	}
	if open("dtype") {
		p.dtypes = strings.Join(names(distinct(rows, func(k table.Key) ep.DType { return k.Dispatch })), ",")
	}
	if shared := distinct(rows, func(k table.Key) bool { return k.SharedExpert }); open("shared-expert") && len(shared) == 1 {
		p.shared = shared[0]
	}
	if skip := distinct(rows, func(k table.Key) bool { return k.SkipA2A }); open("skip-a2a") && len(skip) == 1 {
		p.skipA2A = skip[0]
	}
}

// distinct lists the values of a key field in the order of their rows.
func distinct[T comparable](rows []table.Row, of func(table.Key) T) []T {
	var out []T
	seen := map[T]bool{}
	for _, r := range rows {
		if v := of(r.Key); !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}
