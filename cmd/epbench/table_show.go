package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

type showFlags struct {
	from                sourceFlags
	out                 tableFlags
	filter              runFilter
	model, kind, config string
	all                 bool
}

const rowsShown = 60 // a summary replaces a longer list

func newTableShow() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "List tables and their rows",
		Long: `List tables and their rows, each with its config, its gain over the default and the
95 % interval. If there are many rows, print a summary by model instead. --model, --op
and other flags select rows, --all prints every row.`,
		Example: `  epbench table show --table run
  epbench table show --embedded --model deepseek-v3 --op dispatch --tokens 128
  epbench table show --table h200x4 --config h200x4#12`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&f.model, "model", "", "`PRESET` list rows with this model's shape")
		f.filter.bind(s)
		s.Lookup("routing").Usage = "`CLASSES` list rows of these routing classes: " + tableClasses()
		s.StringVar(&f.kind, "dtype", "", "`DTYPES` list rows of these dtypes")
		s.StringVar(&f.config, "config", "", "`CONFIG` list rows with this config: "+configUsageTable)
		s.BoolVar(&f.all, "all", false, "print every row, however many")
	})
	f.from.bind(cmd)
	f.out.bind(cmd)
	return cmd
}

func (f *showFlags) run(cmd *cobra.Command) error {
	set, err := f.from.open()
	if err != nil {
		return err
	}
	keep, err := f.keep()
	if err != nil {
		return err
	}
	heads, rows := headerTable(), rowTable()
	for _, w := range set.Warnings() {
		heads.Warn("%v", w)
	}
	var kept []*table.Row
	var leads []string
	for _, s := range set.Sources() {
		if lead := leadOfTable(s.Table); lead != "" && len(set.Sources()) > 1 {
			leads = append(leads, sourceName(s)+": "+lead)
		} else if lead != "" {
			leads = append(leads, lead)
		}
		addHeader(&heads, s)
		for i := range s.Table.Rows {
			if r := &s.Table.Rows[i]; keep(s.Table.Header, r) {
				kept = append(kept, r)
				addRow(&rows, s, i)
			}
		}
	}
	f.out.lead = strings.Join(leads, "\n")
	switch {
	case len(set.Sources()) == 0:
		heads.Note("there are no tables: every look-up answers with the default; epbench sweep makes a table")
		return f.out.print(cmd, heads)
	case len(kept) == 0:
		return usagef("no row has %s; %s", f.asked(), availableRows(set))
	case len(kept) > rowsShown && !f.all && !f.out.forPrograms():
		rows = summaryTable(kept)
	default:
		timedNote(&rows, kept, "median and gain were")
	}
	return f.out.print(cmd, heads, rows)
}

func (f *showFlags) asked() string {
	var out []string
	for _, x := range [][2]string{{"--model", f.model}, {"--op", f.filter.ops}, {"--tokens", f.filter.tokens}, {"--routing", f.filter.routing}, {"--dtype", f.kind}, {"--config", f.config}} {
		if x[1] != "" {
			out = append(out, x[0]+" "+x[1])
		}
	}
	return strings.Join(out, ", ")
}

func availableRows(set *table.Set) string {
	var rows []table.Row
	for _, s := range set.Sources() {
		rows = append(rows, s.Table.Rows...)
	}
	out := fmt.Sprintf("there are rows of op %s, dtype %s, routing %s", strings.Join(names(distinct(rows, func(k table.Key) ep.Op { return k.Op })), ", "),
		strings.Join(names(distinct(rows, func(k table.Key) ep.DType { return k.Dispatch })), ", "),
		strings.Join(names(distinct(rows, func(k table.Key) ep.Class { return k.Routing })), ", "))
	if models := modelsOf(rows); models != "" {
		out += ", model " + models
	}
	return out
}

func (f *showFlags) keep() (func(table.Header, *table.Row) bool, error) {
	counts, err := f.filter.counts()
	if err != nil {
		return nil, err
	}
	var shape workloads.Preset
	if f.model != "" {
		if shape, err = workloads.FindPreset(f.model); err != nil {
			return nil, usagef("--model: %w", err)
		}
	}
	isConfig, err := configFilter(f.config)
	if err != nil {
		return nil, err
	}
	among := func(list, word string) bool { return list == "" || slices.Contains(splitList(list), word) }
	return func(h table.Header, r *table.Row) bool {
		k := r.Key
		return among(f.filter.ops, string(k.Op)) && among(f.filter.routing, string(k.Routing)) && among(f.kind, string(k.Dispatch)) &&
			(f.model == "" || k.Hidden == shape.HiddenOf(k.Op) && k.Experts == shape.Experts && k.TopK == shape.TopK) &&
			(counts == nil || slices.ContainsFunc(counts, func(n int) bool { return r.Lo <= n && n <= r.Hi })) &&
			isConfig(h, k, r.Hi, r.Config)
	}, nil
}

// configFilter returns a function that reports whether `s` names the config of a row: by its id, its full spelling, or
// its difference from the default. An empty `s` names every config.
func configFilter(s string) (func(table.Header, table.Key, int, ep.Config) bool, error) {
	s, err := fromRow(s, tableRows)
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	return func(h table.Header, k table.Key, tokens int, c ep.Config) bool {
		if s == "" || s == c.Key() {
			return true
		}
		known, p := knownKernels(h.Machine.Backend), k.Problem(tokens)
		dflt, err := kernels.Default(known, h.Machine, p, h.MaxSMs)
		if c.IsDefault() && err == nil {
			c = dflt
		}
		now := kernels.Current(known, c)
		if ep.IsID(s) {
			return c.HasID(s) || now.HasID(s)
		}
		want, err := kernels.ParseConfig(known, h.Machine, p, s)
		return err == nil && want.Key() == now.Key()
	}, nil
}

func headerTable() reports.Table {
	return reports.Table{Name: "tables", Columns: []reports.Column{
		reports.Words("source"), reports.Words("id").Dropped(7), reports.Numbers("rows", ""), reports.Numbers("answer", ""), reports.Numbers("earlier", "").Dropped(7), reports.Words("name"),
		reports.Words("machine").Dropped(2), reports.Words("abi").Dropped(1), reports.Words("created").Dropped(8),
		reports.Numbers("A/A", "%"), reports.Words("fallback"), reports.Words("max SMs").Dropped(6), reports.Words("driver").Dropped(4),
		reports.Words("cuda").Dropped(3), reports.Words("tool").Dropped(5), reports.Words("edited"),
	}}
}

func addHeader(t *reports.Table, s table.Source) {
	h := s.Table.Header
	bound := "any"
	if h.MaxSMs > 0 {
		bound = strconv.Itoa(h.MaxSMs)
	}
	answer, earlier := answering(t, s.Table)
	t.Add(reports.Str(sourceName(s)), reports.Str(s.Table.ID[:12]), reports.Int(len(s.Table.Rows)), answer, earlier, reports.Str(h.Machine.Name),
		reports.Str(h.Machine.Key()), reports.Str(h.ABI.Short()), reports.Str(h.Created.Format(time.RFC3339)),
		reports.Float(100*h.AA, 2), reports.Str(strings.Join(h.Fallback, " ")), reports.Str(bound), reports.Str(h.Machine.Driver),
		reports.Str(h.Machine.CUDA), reports.Str(h.Tool), reports.Bool(h.Edited))
}

// answering returns two cells: the number of rows that may answer a look-up of this build, and how many of these rows
// were measured with an earlier build. For an unknown backend both cells are empty.
func answering(t *reports.Table, of *table.Table) (answer, earlier reports.Cell) {
	abi := knownABI(of.Header.Machine.Backend)
	if abi == "" {
		return reports.None(), reports.None()
	}
	n, refused := of.Builds(table.Host{Machine: of.Header.Machine, ABI: abi})
	if note := "answer: number of rows that can answer a look-up, because this build has their kernels with the same revision; earlier: how many of these rows were measured with an earlier build. A look-up marks such a row, and refuses it with --this-build"; n+refused > 0 && !slices.Contains(t.Notes, note) {
		t.Note(note)
	}
	return reports.Int(len(of.Rows) - refused), reports.Int(n)
}

func rowTable() reports.Table {
	columns := append([]reports.Column{reports.Numbers("row", "").Dropped(9).Leading()}, keyColumns()...)
	columns = append(append(columns, reports.Words("tokens").Leading()), reports.ConfigColumns()...)
	columns = append(append(columns, reports.Numbers("median", "us").Dropped(8)), gainColumns()...)
	columns = append(columns, timedColumn(7))
	return reports.Table{Name: "rows", Columns: append(columns, reports.Numbers("rounds", "").Dropped(19),
		reports.Words("clock").Dropped(20).Keyed(), reports.Words("source").Dropped(11).Keyed()),
		Notes: []string{"median: the median time of the config; gain: the time of the default divided by the median, with its 95 % interval; commands take these configs as --config ID, or as --config TABLE#ROW with the row number of this list"}}
}

func addRow(t *reports.Table, s table.Source, i int) {
	r := &s.Table.Rows[i]
	cells := append([]reports.Cell{reports.Int(i + 1)}, keyCells(r.Key)...)
	cells = append(append(cells, reports.Str(spanText(r.Lo, r.Hi))), configCells(s.Table.Header, r)...)
	cells = append(append(cells, reports.Micros(r.Evidence.Median)), gainCells(s.Table.Header, r)...)
	plain := -1
	if r.Lo == r.Hi {
		plain = r.Lo // the column tokens shows it
	}
	t.Add(append(cells, timedCell(r, plain), reports.Int(r.Evidence.Rounds), reports.Str(r.Evidence.Clock), reports.Str(sourceName(s)))...)
}

// summaryTable returns a table with one line for each model and number of ranks.
func summaryTable(rows []*table.Row) reports.Table {
	n := reports.Numbers
	t := reports.Table{Name: "summary", Title: "Rows by model", Columns: []reports.Column{
		reports.Words("model"), n("hidden", "").Dropped(1), n("experts", "").Dropped(1), n("topk", "").Dropped(1), n("ranks", ""),
		reports.Words("dtypes"), reports.Words("tokens"), n("rows", ""), n("faster", ""), n("largest gain", "x")},
		Notes: []string{fmt.Sprintf("%d rows; --model, --op, --tokens, --routing, --dtype and --config select rows, --all prints every row", len(rows)),
			"faster: rows with another config than the default"}}
	shape := func(r *table.Row) [4]int { return [4]int{r.Key.Ranks, r.Key.Hidden, r.Key.Experts, r.Key.TopK} }
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b *table.Row) int {
		x, y := shape(a), shape(b)
		return cmp.Or(cmp.Compare(modelOf(a.Key), modelOf(b.Key)), slices.Compare(x[:], y[:]))
	})
	for len(sorted) > 0 {
		end := slices.IndexFunc(sorted, func(r *table.Row) bool { return shape(r) != shape(sorted[0]) })
		if end < 0 {
			end = len(sorted)
		}
		t.Add(summaryCells(sorted[:end])...)
		sorted = sorted[end:]
	}
	return t
}

func summaryCells(rows []*table.Row) []reports.Cell {
	k := rows[0].Key
	lo, hi, faster, gain := rows[0].Lo, rows[0].Hi, 0, 1.0
	var dtypes []string
	for _, r := range rows {
		lo, hi, gain = min(lo, r.Lo), max(hi, r.Hi), max(gain, r.Evidence.Gain)
		if !r.Default {
			faster++
		}
		if d := string(r.Key.Dispatch); !slices.Contains(dtypes, d) {
			dtypes = append(dtypes, d)
		}
	}
	return []reports.Cell{reports.Str(cmp.Or(modelOf(k), fmt.Sprintf("%d/%d/%d", k.Hidden, k.Experts, k.TopK))), reports.Int(k.Hidden), reports.Int(k.Experts), reports.Int(k.TopK),
		reports.Int(k.Ranks), reports.Str(strings.Join(dtypes, " ")), reports.Str(spanText(lo, hi)), reports.Int(len(rows)), reports.Int(faster), reports.Float(gain, 2)}
}
