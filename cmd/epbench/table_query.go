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

// queryFlags are the flags of commands that ask tables something.
type queryFlags struct {
	sourceFlags
	problem       problemFlags
	machine       string
	backend       string
	precision     string
	objective     string
	config        string
	otherKernels  bool
	otherMachines bool
}

func (f *queryFlags) bind(cmd *cobra.Command) {
	f.problem.bind(cmd)
	f.problem.routing = string(ep.AllRoutings)
	for _, x := range []struct{ flag, usage, dflt string }{
		{"routing", "routing classes (" + tableClasses() + ") or `ROUTINGS` to classify, comma-separated", string(ep.AllRoutings)},
		{"model", "model `PRESET`; default: the shape that all rows agree on", ""},
		{"op", "`OPS` to ask about: some of dispatch, combine, pair, activation; default: those that have rows", ""},
		{"dtype", "`DTYPES` that dispatched tokens travel as, or activated rows are stored as: bf16, fp8, mxfp4, nvfp4; default: those that have rows", ""},
		{"ranks", "ranks, `N` GPUs; default: what all rows agree on, else those of the machine", "0"},
		{"nodes", "`N` hosts that the ranks are spread over; default: what all rows agree on, else 1", "0"},
		{"mode", "`HOW` rounds are issued: graph, eager or cold; default: what all rows agree on, else the backend's own", ""},
		{"layout", "`HOW` received rows lie: expert, expert:128, masked, rank or rank:packed; default: what all rows agree on, else expert", ""},
	} {
		g := cmd.Flags().Lookup(x.flag)
		g.Usage, g.DefValue = x.usage, x.dflt
	}
	f.sourceFlags.bind(cmd)
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.StringVar(&f.machine, "machine", "", "ask for this `MACHINE`: table (its own; the default with --table), host, or a file with one (run.json, table.json)")
		s.StringVar(&f.precision, "precision", "full", "`WHICH` precision to accept: full or reduced")
		s.StringVar(&f.objective, "objective", "alone", "`WHICH` rows: alone, or beside, for calls that run while a product does")
		s.StringVar(&f.config, "config", "", "print only what concerns this `CONFIG`: "+configUsageTable)
		s.BoolVar(&f.otherKernels, "other-kernels", false, "also take rows of other builds of their kernels, behind all others and marked")
	})
	bindOtherMachines(cmd, &f.otherMachines)
	addBackendFlag(cmd, &f.backend)
}

// bindOtherMachines registers the flag by which a caller takes rows of another machine.
func bindOtherMachines(cmd *cobra.Command, v *bool) {
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.BoolVar(v, "other-machines", false, "also take rows of other GPUs of this architecture and link, behind all others and marked")
	})
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
	notes     []string // refused and unverified tables
	misses    []miss   // what has no row
	keys      []table.Key
	tokens    []int
	maxTokens int // capacity of the buffers
	config    string
	isConfig  func(table.Header, table.Key, int, ep.Config) bool // filter of --config
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
	host.OtherKernels, host.OtherMachines = f.otherKernels, f.otherMachines
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
		p.Precision, p.Objective = accepted, objective
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

// adopt fills what the user left open from the machine's rows where all agree,
// so that a table of one problem needs no flags that repeat it.
func (f *queryFlags) adopt(cmd *cobra.Command, q *query) error {
	rows := q.rowsHere()
	given := func(flags ...string) bool { return slices.ContainsFunc(flags, cmd.Flags().Changed) }
	p, shaped := &f.problem, given("model", "hidden", "experts", "topk")
	if len(rows) == 0 {
		if !shaped {
			q.note("no --model and no row to take one from: asked about the preset " + p.model)
		}
		return nil
	}
	if !shaped {
		shapes := distinct(rows, func(k table.Key) [3]int { return [3]int{k.Hidden, k.Experts, k.TopK} })
		if len(shapes) > 1 {
			return usagef("--model: the rows are of %d shapes (%s); name one, or give --hidden, --experts and --topk", len(shapes), modelsOf(rows))
		}
		p.hidden, p.experts, p.topK = shapes[0][0], shapes[0][1], shapes[0][2]
	}
	set := func(flag, value string) {
		if !given(flag) {
			cmd.Flags().Lookup(flag).Value.Set(value) // a value of a row that was read fits its flag
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

// rowsHere are the rows for the host's machine, and those of other machines that it
// takes. Where there are none, a note says which machines there are tables for.
func (q *query) rowsHere() []table.Row {
	var rows []table.Row
	var others, akin []string
	for _, s := range q.set.Sources() {
		of := s.Table.Header.Machine
		if of.Key() == q.host.Machine.Key() || q.host.AcceptsMachine(of) {
			rows = append(rows, s.Table.Rows...)
		} else {
			others = append(others, sourceName(s)+" ("+of.Name+")")
			if q.host.Machine.Similar(of) && !slices.Contains(akin, of.Name) {
				akin = append(akin, of.Name)
			}
		}
	}
	if len(rows) == 0 && len(others) > 0 {
		text := "No table fits this machine. --table NAME looks up for the machine that the table was measured on: " + strings.Join(others, ", ")
		if len(akin) > 0 {
			text += "; --other-machines takes rows of " + strings.Join(akin, " and ") + ", of the same architecture and link"
		}
		q.note(text)
	}
	return rows
}

// modelsOf names a few of the presets that rows serve.
func modelsOf(rows []table.Row) string {
	models := distinct(rows, modelOf)
	models = slices.DeleteFunc(models, func(m string) bool { return m == "" })
	if len(models) > 4 {
		models = append(models[:4], "...")
	}
	return strings.Join(models, ", ")
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
