package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// winnerColumn is a column of the table of decisions.
type winnerColumn struct {
	column   Column
	cell     func(*record.Search) Cell
	searched bool // only searches have it; bench, which measures one config, has not
}

var winnerColumns = []winnerColumn{
	{Words("class").Dropped(8), func(s *record.Search) Cell { return Str(string(s.Class)) }, false},
	{Words("verdict"), verdictCell, false},
	{Numbers("gain", "x"), func(s *record.Search) Cell {
		return Float(s.Decision.Gain.Mid, 3).Marked(verdictMarks[s.Decision.Verdict])
	}, false},
	{Numbers("low", "x").Dropped(3), func(s *record.Search) Cell { return Float(s.Decision.Gain.Low, 3) }, false},
	{Numbers("high", "x").Dropped(3), func(s *record.Search) Cell { return Float(s.Decision.Gain.High, 3) }, false},
	{Numbers("median", "us"), func(s *record.Search) Cell { return Micros(s.Times.Median) }, false},
	{Numbers("p10", "us").Dropped(5), func(s *record.Search) Cell { return Micros(s.Times.P10) }, false},
	{Numbers("p90", "us").Dropped(5), func(s *record.Search) Cell { return Micros(s.Times.P90) }, false},
	{Words("id").Dropped(2), func(s *record.Search) Cell { return Str(s.Decision.Config.ID()) }, false},
	{Words("config"), func(s *record.Search) Cell { return ConfigCell(s.Decision.Config, s.Decision.Default) }, false},
	{Numbers("error", "%").Dropped(6), func(s *record.Search) Cell { return Float(100*s.MaxErr, 3) }, false},
	{Numbers("busiest", "GB/s").Dropped(4), func(s *record.Search) Cell { return Float(float64(s.Bytes)/s.Times.Median/1e9, 3) }, false},
	{Numbers("imbalance", "x").Dropped(6), func(s *record.Search) Cell { return Float(s.Imbalance, 2) }, false},
	{Numbers("rounds", "").Dropped(9), func(s *record.Search) Cell { return Int(s.Decision.Rounds) }, false},
	{Words("clock").Dropped(9), func(s *record.Search) Cell { return Str(s.Clock) }, false},
	{Numbers("ties", "").Dropped(7), func(s *record.Search) Cell { return Int(s.Ties) }, true},
	{Numbers("tried", "").Dropped(7), func(s *record.Search) Cell { return Int(s.Tried) }, true},
	{Numbers("legal", "").Dropped(10), func(s *record.Search) Cell { return Int(s.Legal) }, true},
}

// Winners lists the decisions of a sweep. Terminal, summary.md and page print
// this one table.
func Winners(run *record.Run) Table {
	t := decided(run, winnerColumns)
	t.Name, t.Title = "winners", "Winners: what to launch"
	return t
}

// Measured lists the decisions of bench: Winners without the columns of a
// search.
func Measured(run *record.Run) Table {
	columns := slices.DeleteFunc(slices.Clone(winnerColumns), func(c winnerColumn) bool { return c.searched })
	t := decided(run, columns)
	t.Name, t.Title = "bench", "Measured beside the default"
	return t
}

func decided(run *record.Run, columns []winnerColumn) Table {
	cases := make([]*Case, len(run.Searches))
	for i := range run.Searches {
		s := &run.Searches[i]
		cases[i] = &Case{Problem: s.Problem, Routing: s.Routing, Seed: run.Seed, Search: s}
	}
	p := ColumnsFor(cases)
	t := Table{Columns: p.Columns}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.column)
	}
	for _, c := range cases {
		cells := p.Cells(c)
		for _, col := range columns {
			if !c.Search.OK() && col.column.Name != "verdict" && col.column.Name != "class" {
				cells = append(cells, None())
				continue
			}
			cells = append(cells, col.cell(c.Search))
		}
		t.Add(cells...)
	}
	t.Note(p.Shared,
		"median, p10, p90: of the slowest rank, over rounds; gain: the default's time over the config's in the same rounds; low, high: its 95 % interval",
		"error: the largest against the oracle, relative to the row's largest value; busiest: bytes of the busiest rank, a message a selection, over the median; imbalance: the fullest rank over the mean")
	t.Note(defaults(run)...)
	return t
}

// verdictCell is the verdict, or the cause where there was nothing to compare.
func verdictCell(s *record.Search) Cell {
	d := s.Decision
	switch d.Cause {
	case "":
		return Str(string(d.Verdict)).Marked(verdictMarks[d.Verdict])
	case record.HostBound:
		return Str(string(d.Cause)).Marked(Dim)
	}
	return Str(string(d.Cause)).Marked(Bad)
}

// ConfigCell shows a config by what differs from the default. Programs get the
// full spelling.
func ConfigCell(c, dflt ep.Config) Cell { return Cell{Text: c.Difference(dflt), Value: c.Key()} }

// defaults spells out the defaults that configs are shown against, each once.
func defaults(run *record.Run) []string {
	var all []ep.Config
	for _, s := range run.Searches {
		all = append(all, s.Decision.Default)
	}
	return spelled(all)
}

// DefaultNotes is defaults for cases, of which some may not be decided.
func DefaultNotes(cases []*Case) []string {
	var all []ep.Config
	for _, c := range cases {
		if d := c.dflt(); !d.IsDefault() {
			all = append(all, d)
		}
	}
	return spelled(all)
}

func spelled(defaults []ep.Config) []string {
	var out []string
	for _, d := range defaults {
		if note := "default: " + d.Key(); !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// WinnersOf is Winners with warnings about what the log lacks.
func WinnersOf(l *Loaded) Table {
	t := Winners(l.Run)
	undecided := 0
	for _, c := range l.Cases {
		if c.Search == nil {
			undecided++
		}
	}
	if undecided > 0 && len(l.Run.Searches) > 0 {
		t.Warn("%d of %d cases were not decided: go on with sweep --resume", undecided, len(l.Cases))
	}
	if n := zeroTimes(l.Cases); n > 0 {
		t.Warn("%d configs read a time of 0 and were left out: the clock is too coarse, fold more calls", n)
	}
	t.Warnings = append(t.Warnings, l.Warnings...)
	return t
}

// zeroTimes counts the configs whose median is 0.
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

// Headline is a run in one sentence: how much is gained where, and how sure.
type Headline struct {
	Searches int
	Verdicts map[record.Verdict]int
	Noisy    int            // searches that the machine was too noisy to decide
	Failed   int            // searches that compared nothing
	Geomean  float64        // of the gains
	Best     *record.Search // the one with the largest gain, nil when all failed
	AA       float64        // the largest A/A spread
}

// Summarise computes the headline of a run.
func Summarise(run *record.Run) Headline {
	h := Headline{Verdicts: map[record.Verdict]int{}, Searches: len(run.Searches)}
	sum := 0.0
	for i := range run.Searches {
		s := &run.Searches[i]
		h.AA = max(h.AA, s.Decision.Band.AA)
		if !s.OK() {
			h.Failed++
			continue
		}
		if s.Decision.Cause == record.Noisy {
			h.Noisy++
		}
		h.Verdicts[s.Decision.Verdict]++
		if h.Best == nil || s.Decision.Gain.Mid > h.Best.Decision.Gain.Mid {
			h.Best = s
		}
		sum += math.Log(s.Decision.Gain.Mid)
	}
	h.Geomean = math.Exp(sum / float64(h.Searches-h.Failed))
	return h
}

// String says it in a few sentences.
func (h Headline) String() string {
	var s string
	switch faster := h.Verdicts[record.Faster]; {
	case h.Searches == 0:
		return "Nothing was decided in this run."
	case h.Best == nil:
		return fmt.Sprintf("The default ran in none of %d cases: nothing could be compared.", h.Searches)
	case faster == 0:
		s = fmt.Sprintf("Keep the default: no config is faster in any of %d cases.", h.Searches)
	default:
		s = fmt.Sprintf("A config is faster than the default in %d of %d cases. The gain over all cases is %.2fx (geometric mean), %.2fx at best (%s).",
			faster, h.Searches, h.Geomean, h.Best.Decision.Gain.Mid, Title(h.Best.Problem, h.Best.Routing))
	}
	for _, open := range []struct {
		n    int
		what string
	}{{h.Verdicts[record.Undecided] - h.Noisy, "undecided"}, {h.Noisy, "too noisy to decide"}, {h.Failed, "without a default that runs"}} {
		if open.n > 0 {
			s += fmt.Sprintf(" Cases %s: %d.", open.what, open.n)
		}
	}
	if h.AA > 0 {
		s += fmt.Sprintf(" The default differs from itself by up to %.1f %%: smaller differences mean nothing.", 100*h.AA)
	}
	return s
}
