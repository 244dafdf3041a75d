package reports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

type winnerColumn struct {
	column Column
	cell   func(*Case) Cell
}

var winnerColumns = []winnerColumn{
	{Words("class").Dropped(18), func(c *Case) Cell { return Str(string(c.Search.Class)) }},
	{Words("verdict").Dropped(1), func(c *Case) Cell { return verdictCell(c.Search) }},
	{Numbers("gain", "x"), func(c *Case) Cell {
		return Gain(c.Search.Decision.Gain.Mid).Marked(verdictMarks[c.Search.Decision.Verdict])
	}},
	{Numbers("low", "x"), func(c *Case) Cell { return GainCells(c.Search.Decision.Gain)[1] }},
	{Numbers("high", "x"), func(c *Case) Cell { return GainCells(c.Search.Decision.Gain)[2] }},
	{Numbers("median", "us").Dropped(3), func(c *Case) Cell { return Micros(c.Search.Times.Median) }},
	{Numbers("p10", "us").Dropped(15), func(c *Case) Cell { return Micros(c.Search.Times.P10) }},
	{Numbers("p90", "us").Dropped(15), func(c *Case) Cell { return Micros(c.Search.Times.P90) }},
	{ConfigColumns()[0], func(c *Case) Cell { return ConfigCells(c.Search.Decision.Config, c.Search.Decision.Default)[0] }},
	{ConfigColumns()[1], func(c *Case) Cell { return ConfigCells(c.Search.Decision.Config, c.Search.Decision.Default)[1] }},
	{Numbers("error", "%").Dropped(16), func(c *Case) Cell { return Float(100*c.Search.MaxErr, 3) }},
	{Numbers("busiest", "GB/s").Dropped(14), speedCell},
	{Numbers("imbalance", "x").Dropped(16), func(c *Case) Cell { return Float(c.Search.Imbalance, 2) }},
	{Words("band").Dropped(19), func(c *Case) Cell { return Str(c.Search.Decision.Band.Short()) }},
	{Numbers("rounds", "").Dropped(19), func(c *Case) Cell { return Int(c.Search.Decision.Rounds) }},
	{Words("clock").Dropped(19), func(c *Case) Cell { return Str(c.Search.Clock) }},
}

var searchColumns = []winnerColumn{
	{Numbers("ties", "").Dropped(17), func(c *Case) Cell { return Int(c.Search.Ties) }},
	{Numbers("tried", "").Dropped(17), func(c *Case) Cell { return Int(c.Search.Tried) }},
	{Numbers("legal", "").Dropped(20), func(c *Case) Cell { return Int(c.Search.Legal) }},
}

// Winners lists the decisions of a sweep.
func Winners(run *record.Run) Table {
	columns := slices.Concat(winnerColumns, searchColumns)
	if slices.ContainsFunc(run.Searches, challenged) {
		columns = slices.Insert(columns, len(winnerColumns), challengerColumn)
	}
	t := decisionTable(run, everySearch(run), columns)
	t.Name, t.Title = "winners", "Winners: what to launch"
	return t
}

var againstColumn = winnerColumn{Words("against").Dropped(2), func(c *Case) Cell {
	return Cell{Text: c.Search.Decision.Default.ID(), Value: c.Search.Decision.Default.Key()}
}}

// Measured lists the decisions of bench.
func Measured(run *record.Run) Table {
	columns, title := winnerColumns, "Measured against the default"
	against := slices.ContainsFunc(run.Searches, func(s record.Search) bool { return s.Reference != "" })
	if against {
		columns, title = slices.Concat(winnerColumns, []winnerColumn{againstColumn}), "Measured against another table's configs"
	}
	t := decisionTable(run, everySearch(run), columns)
	t.Name, t.Title = "bench", title
	if against {
		t.Note(`against: the config with which the row's config was compared, instead of the default; in the column "config", the word "default" means the config in the column "against"`)
		for _, line := range GatherReasons(run.Searches, func(s *record.Search) string { return s.Reference }) {
			t.Note("--over: " + line)
		}
	}
	return t
}

func everySearch(run *record.Run) []int {
	all := make([]int, len(run.Searches))
	for i := range all {
		all[i] = i
	}
	return all
}

// decisionTable lists the searches at the given indexes. Each row has a number.
// Commands name the row N of a run as RUN#N.
func decisionTable(run *record.Run, indexes []int, columns []winnerColumn) Table {
	cases := make([]*Case, len(indexes))
	for i, at := range indexes {
		s := &run.Searches[at]
		cases[i] = &Case{Problem: s.Problem, Routing: s.Routing, Seed: run.Seed, Search: s}
		cases[i].Load = cases[i].drawnWorkload(run)
	}
	p := ColumnsFor(cases)
	t := Table{Columns: append([]Column{Numbers("row", "").Dropped(9).Leading()}, p.Columns...)}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.column)
	}
	for i, c := range cases {
		cells := append([]Cell{Int(indexes[i] + 1)}, p.Cells(c)...)
		for _, col := range columns {
			if !c.Search.OK() && col.column.Name != "verdict" && col.column.Name != "class" {
				cells = append(cells, None())
				continue
			}
			cells = append(cells, col.cell(c))
		}
		t.Add(cells...)
	}
	t.Note(p.Shared,
		"median, p10, p90: quantiles of the slowest rank's time in each round; gain: the default's time divided by the config's time in the same rounds; low, high: the gain's 95 % interval, empty for the default itself",
		"error: the largest error against the oracle, divided by the largest magnitude in the same output vector; busiest: bytes of the busiest rank divided by the median time, and each token counts once for each rank that needs it; imbalance: load of the fullest rank divided by the mean load",
		"band: the least difference that counts, from the policy or the A/A spread")
	if i := slices.IndexFunc(run.Searches, func(s record.Search) bool { return s.Decision.Sessions > 0 }); i >= 0 {
		t.Note(fmt.Sprintf("times and gains come from %d sessions that were not used to choose a config; low and high include the difference between sessions", run.Searches[i].Decision.Sessions))
	}
	if slices.ContainsFunc(run.Searches, func(s record.Search) bool { return s.Problem.Op == ep.Activation }) {
		t.Note("busiest of an activation: bytes that it reads and writes in memory, divided by the median")
	}
	t.Note(undecidedNotes(cases, t.Columns)...)
	t.Note(defaults(run)...)
	return t
}

// ConfigColumns returns the columns of a config: its id and its difference from the default.
func ConfigColumns() []Column {
	return []Column{Words("id"), Words("config").Dropped(10).WithIDs("id")}
}

// ConfigCells returns the cells of a config under ConfigColumns.
func ConfigCells(c, defaultConfig ep.Config) []Cell {
	return []Cell{Str(c.ID()), {Text: c.Difference(defaultConfig), Value: c.Key()}}
}

func defaults(run *record.Run) []string {
	var all []caseDefault
	var out []string
	for _, s := range run.Searches {
		d := s.Decision.Default
		if s.Reference == "" {
			all = append(all, caseDefault{s.Problem, d})
		} else if note := d.ID() + ": " + d.Key(); !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return append(defaultNotes(all), out...)
}

// DefaultNotes spells out each case's default once.
func DefaultNotes(cases []*Case) []string {
	var all []caseDefault
	for _, c := range cases {
		if d := c.defaultConfig(); !d.IsDefault() {
			all = append(all, caseDefault{c.Problem, d})
		}
	}
	return defaultNotes(all)
}

type caseDefault struct {
	problem ep.Problem
	config  ep.Config
}

// defaultNotes spells out each default once. It adds op and token counts if the default depends on them.
func defaultNotes(defaults []caseDefault) []string {
	var spelled []string
	kernels := map[string][]string{}
	ops := map[string][]string{}
	tokens := map[string][]string{}
	for _, d := range defaults {
		if strings.Contains(d.config.Kernel, "+") && len(spelled) > 1 {
			continue
		}
		line := d.config.Kernel + ": " + d.config.Difference(ep.Config{Kernel: d.config.Kernel})
		op := string(d.problem.Op)
		spelled = once(spelled, line)
		kernels[d.config.Kernel] = once(kernels[d.config.Kernel], line)
		ops[d.config.Kernel+op] = once(ops[d.config.Kernel+op], line)
		tokens[line+op] = once(tokens[line+op], strconv.Itoa(d.problem.Tokens))
	}
	for i, line := range spelled {
		kernel, values, _ := strings.Cut(line, ": ")
		var of []string
		for _, op := range ep.Ops() {
			switch at := tokens[line+string(op)]; {
			case at == nil || len(kernels[kernel]) == 1:
			case len(ops[kernel+string(op)]) == 1:
				of = append(of, string(op))
			default:
				of = append(of, string(op)+" of "+strings.Join(at, ", ")+" tokens")
			}
		}
		spelled[i] = "default of " + line
		if of != nil {
			spelled[i] = "default of " + kernel + ", " + strings.Join(of, ", ") + ": " + values
		}
	}
	return spelled
}

func once(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// WinnersOf returns Winners(l.Run) with warnings about unusable decisions and times.
func WinnersOf(l *Loaded) Table {
	t := Winners(l.Run)
	undecided := 0
	for _, c := range l.Cases {
		if c.Search == nil {
			undecided++
		}
	}
	if undecided > 0 && len(l.Run.Searches) > 0 {
		t.Warn("%d of %d cases were not decided: continue with: epbench sweep --resume %s", undecided, len(l.Cases), ep.Quote(l.Path))
	}
	if n := zeroTimes(l.Cases); n > 0 {
		t.Warn("%d configs were left out, because their time is 0: the clock is too coarse, so measure more calls in each round", n)
	}
	t.Warnings = append(t.Warnings, l.Warnings...)
	return t
}

func zeroTimes(cases []*Case) int {
	n := 0
	for _, c := range cases {
		for _, e := range c.Entries {
			if e.Status == ep.OK && len(e.Times) > 0 && e.Median.Mid <= 0 {
				n++
			}
		}
	}
	return n
}
