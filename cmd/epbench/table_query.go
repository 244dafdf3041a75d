package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

type queryFlags struct {
	sourceFlags
	problem       problemFlags
	machine       string
	backend       string
	precision     string
	objective     string
	config        string
	thisBuild     bool
	otherMachines bool
}

func (f *queryFlags) bind(cmd *cobra.Command) {
	f.problem.bind(cmd)
	f.problem.routing = string(ep.AllRoutings)
	for _, x := range []struct{ flag, usage, dflt string }{
		{"routing", "`ROUTINGS` comma-separated list of classes (" + tableClasses() + ") or of routings to classify", string(ep.AllRoutings)},
		{"model", "`PRESET` model with this shape; default: the shape of all rows, if they agree", ""},
		{"op", "`OPS` operations, comma-separated: dispatch, combine, pair, activation; default: those with rows", ""},
		{"dtype", "`DTYPES` dtype of dispatched tokens and of activated rows: bf16, fp8, mxfp4, nvfp4; default: those with rows", ""},
		{"ranks", "`N` number of ranks, one GPU each; default: the number of all rows, else the GPUs of the machine", "0"},
		{"nodes", "`N` number of hosts, each with an equal share of the ranks; default: the number of all rows, else 1", "0"},
		{"mode", "`MODE` how rounds are launched: graph, eager or cold; default: the mode of all rows, else the backend's", ""},
		{"layout", "`LAYOUT` how received rows lie in memory: expert, expert:128, masked, rank or rank:packed; default: the layout of all rows, else expert", ""},
	} {
		g := cmd.Flags().Lookup(x.flag)
		setUsage(g, x.usage)
		g.DefValue = x.dflt
	}
	f.sourceFlags.bind(cmd)
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.StringVar(&f.machine, "machine", "", "`MACHINE` machine to look up for: table (the machine of the table; the default with --table), host, or a file with a machine (run.json, table.json)")
		s.StringVar(&f.precision, "precision", "full", "`PRECISION` precision of rows that may answer: full or reduced")
		s.StringVar(&f.objective, "objective", "alone", "`OBJECTIVE` which rows to take: alone, or beside, for calls beside a matrix product")
		s.StringVar(&f.config, "config", "", "`CONFIG` print only this config: "+configUsageTable)
		s.BoolVar(&f.thisBuild, "this-build", false, "refuse rows that were measured with an earlier build of their kernels")
	})
	bindOtherMachines(cmd, &f.otherMachines)
	addBackendFlag(cmd, &f.backend)
}

func bindOtherMachines(cmd *cobra.Command, v *bool) {
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.BoolVar(v, "other-machines", false, "also take rows of other GPUs with this architecture and link; they are tried last, and marked")
	})
}

func tableClasses() string { return strings.Join(names(ep.Classes()), ", ") }

func names[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

type query struct {
	set       *table.Set
	host      table.Host
	notes     []string
	misses    []miss
	keys      []table.Key
	tokens    []int
	maxTokens int // tokens of a rank that fit into buffers
	config    string
	isConfig  func(table.Header, table.Key, int, ep.Config) bool
}

func (f *queryFlags) open(cmd *cobra.Command) (*query, error) {
	set, err := f.sourceFlags.open()
	if err != nil {
		return nil, err
	}
	host, err := f.host(cmd, set)
	if err != nil {
		return nil, err
	}
	host.OnlyThisBuild, host.OtherMachines = f.thisBuild, f.otherMachines
	q := &query{set: set, host: host, config: f.config}
	if q.isConfig, err = configFilter(f.config); err != nil {
		return nil, err
	}
	if err := f.adopt(cmd, q); err != nil {
		return nil, err
	}
	if q.tokens, err = f.problem.counts(); err != nil {
		return nil, err
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
	objective, err := ep.ParseObjective(f.objective)
	if err != nil {
		return nil, badInput(fmt.Errorf("--%w", err))
	}
	for _, p := range problems {
		if !slices.Contains(ep.RowOps(), p.Op) {
			return nil, usagef("--op: tables have no rows for %s; compare runs of this op with epbench table choose", p.Op)
		}
		p.Precision, p.Objective = accepted, objective
		if p.Tokens != problems[0].Tokens {
			continue
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

// narrow returns the tables that may answer for a key. It notes why other tables may not.
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

// classes returns the routing classes of --routing. If a routing is given, it is drawn and classified.
func (f *queryFlags) classes(p ep.Problem) ([]ep.Class, error) {
	if err := noGaps("--routing", f.problem.routing); err != nil {
		return nil, err
	}
	var out []ep.Class
	for _, word := range splitList(f.problem.routing) {
		c, err := ep.ParseClass(word)
		if err != nil {
			d, bad := workloads.Parse(word)
			if near := ep.Nearest(word, names(ep.Classes())); bad != nil && near != "" {
				return nil, usagef("--routing: unknown %q; did you mean the class %s?", word, near)
			}
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

// adopt sets missing flags to the value that all rows for the machine share.
func (f *queryFlags) adopt(cmd *cobra.Command, q *query) error {
	rows := q.rowsHere()
	given := func(flags ...string) bool { return slices.ContainsFunc(flags, cmd.Flags().Changed) }
	p, shaped := &f.problem, given("model", "hidden", "experts", "topk")
	if len(rows) == 0 {
		if !shaped {
			q.note("without --model, and without rows that give a shape, the look-up is for the preset " + p.model)
		}
		return nil
	}
	if !shaped {
		shapes := distinct(rows, func(k table.Key) [3]int { return [3]int{k.Hidden, k.Experts, k.TopK} })
		if len(shapes) > 1 {
			return usagef("--model: the rows have %d different shapes (%s); name one of these models, or give --hidden, --experts and --topk", len(shapes), modelsOf(rows))
		}
		p.hidden, p.experts, p.topK = shapes[0][0], shapes[0][1], shapes[0][2]
	}
	set := func(flag, value string) {
		if !given(flag) {
			cmd.Flags().Lookup(flag).Value.Set(value) // values of rows are valid
		}
	}
	for _, n := range []struct {
		flag string
		of   func(table.Key) any
	}{
		{"ranks", func(k table.Key) any { return k.Ranks }},
		{"nodes", func(k table.Key) any { return k.Nodes }},
		{"mode", func(k table.Key) any { return k.Mode }},
		{"shared-expert", func(k table.Key) any { return k.SharedExpert }},
		{"skip-a2a", func(k table.Key) any { return k.SkipA2A }},
		{"layout", func(k table.Key) any { return k.Layout }},
	} {
		if values := distinct(rows, n.of); len(values) == 1 {
			set(n.flag, fmt.Sprint(values[0]))
		}
	}
	set("op", strings.Join(names(distinct(rows, func(k table.Key) ep.Op { return k.Op })), ","))
	dtypes := distinct(rows, func(k table.Key) ep.DType { return k.Dispatch })
	slices.SortFunc(dtypes, func(a, b ep.DType) int { return slices.Index(ep.DTypes(), a) - slices.Index(ep.DTypes(), b) })
	set("dtype", strings.Join(names(dtypes), ","))
	return nil
}

func (q *query) rowsHere() []table.Row {
	var rows []table.Row
	var others, similar []string
	for _, s := range q.set.Sources() {
		of := s.Table.Header.Machine
		if of.Key() == q.host.Machine.Key() || q.host.AcceptsMachine(of) {
			rows = append(rows, s.Table.Rows...)
		} else {
			others = append(others, sourceName(s)+" ("+of.Name+")")
			if q.host.Machine.Similar(of) && !slices.Contains(similar, of.Name) {
				similar = append(similar, of.Name)
			}
		}
	}
	if len(rows) == 0 && len(others) > 0 {
		text := "No table fits this machine. With --table NAME the look-up is for the machine on which that table was measured: " + strings.Join(others, ", ")
		if len(similar) > 0 {
			text += "; --other-machines takes rows of " + strings.Join(similar, " and ") + ", of the same architecture and link"
		}
		q.note(text)
	}
	return rows
}

func modelsOf(rows []table.Row) string {
	models := distinct(rows, modelOf)
	models = slices.DeleteFunc(models, func(m string) bool { return m == "" })
	if len(models) > 4 {
		models = append(models[:4], "...")
	}
	return strings.Join(models, ", ")
}

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
