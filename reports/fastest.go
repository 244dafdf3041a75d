package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// LibraryTime is one library's tuned time for a case.
type LibraryTime struct {
	Library string // name, version, and run if ambiguous
	Work    string // timed steps (ep.Work.Key); "" if unknown
	Run     *Loaded
	Case    *Case
	Entry   *Entry // the run's winner

	plainName string
}

// Own returns the library's gain over its own default, NaN if unknown.
func (o LibraryTime) Own() record.Interval {
	if s := o.Case.Search; s != nil && s.OK() {
		return s.Decision.Gain
	}
	return noInterval
}

// LibraryComparison compares the libraries that do the same work in one case.
type LibraryComparison struct {
	Problem     ep.Problem // without MaxTokens and Layout
	Routing     string
	Work        string          // timed steps, and the clock
	Libraries   []LibraryTime   // fastest first
	Gain        record.Interval // second library's time / first library's time; NaN for one library
	Interleaved bool            // the first two runs took turns
	Band        float64         // the widest band of the runs
}

// Decided reports whether the first library is faster by more than the band.
func (c LibraryComparison) Decided() bool { return len(c.Libraries) > 1 && c.beyond(c.Gain) }

func (c LibraryComparison) beyond(gain record.Interval) bool {
	return gain.Low > 1 && gain.Mid > 1+c.Band
}

func (c LibraryComparison) seed() uint64 { return c.Libraries[0].Case.Seed }

// nextAfter returns the fastest library that is faster than library `current` by more than the band. If there is none,
// it returns `current`.
func (c LibraryComparison) nextAfter(current string) string {
	in := slices.IndexFunc(c.Libraries, func(o LibraryTime) bool { return o.Library == current })
	if in < 0 {
		return c.Libraries[0].Library
	}
	for _, o := range c.Libraries[:in] {
		if gain, _ := c.Libraries[in].ratioTo(o); c.beyond(gain) {
			return o.Library
		}
	}
	return current
}

// CompareLibraries returns a comparison for each problem, routing, seed and work. Runs of different machines are an
// error.
func CompareLibraries(runs []*Loaded) ([]LibraryComparison, error) {
	if err := sameHardware(runs); err != nil {
		return nil, err
	}
	index := map[string]int{}
	var out []LibraryComparison
	for _, l := range runs {
		for _, c := range l.Cases {
			o, ok := libraryTime(l, c)
			if !ok {
				continue
			}
			p := c.Problem
			p.MaxTokens, p.Layout = 0, ""
			choice := LibraryComparison{Problem: p, Routing: c.Routing, Work: strings.TrimSuffix(cmp.Or(o.Work, "unknown")+", "+o.Entry.Clock, ", ")}
			key := fmt.Sprintf("%s|%s|%d|%s", p.Key(), c.Routing, c.Seed, choice.Work)
			if o.Work == "" {
				key += "|" + l.Path
			}
			i, known := index[key]
			if !known {
				i = len(out)
				index[key] = i
				out = append(out, choice)
			}
			out[i].Libraries = append(out[i].Libraries, o)
		}
	}
	nameRuns(out)
	for i := range out {
		out[i].decide()
	}
	slices.SortStableFunc(out, func(a, b LibraryComparison) int {
		return cmp.Or(compareShape(a.Problem, b.Problem), cmp.Compare(a.Routing, b.Routing), cmp.Compare(a.Work, b.Work), cmp.Compare(a.seed(), b.seed()),
			cmp.Compare(a.Problem.Tokens, b.Problem.Tokens))
	})
	return out, nil
}

func nameRuns(choices []LibraryComparison) {
	twice := map[string]bool{}
	for _, c := range choices {
		seen := map[string]bool{}
		for _, o := range c.Libraries {
			twice[o.Library] = twice[o.Library] || seen[o.Library]
			seen[o.Library] = true
		}
	}
	for _, c := range choices {
		for i, o := range c.Libraries {
			if twice[o.Library] {
				c.Libraries[i].Library += " (" + o.Run.Name() + ")"
			}
		}
	}
}

func libraryTime(l *Loaded, c *Case) (LibraryTime, bool) {
	e := c.Winner()
	if e == nil || !e.OK() {
		return LibraryTime{}, false
	}
	w := l.Run.Work(c.Problem.Op, e.Config)
	name := cmp.Or(strings.TrimSpace(w.Library+" "+w.Version), l.Name())
	return LibraryTime{Library: name, Work: w.Key(c.Problem), Run: l, Case: c, Entry: e, plainName: name}, true
}

func (c *LibraryComparison) decide() {
	slices.SortStableFunc(c.Libraries, func(a, b LibraryTime) int { return cmp.Compare(a.Entry.Median.Mid, b.Entry.Median.Mid) })
	for _, o := range c.Libraries {
		c.Band = max(c.Band, o.Run.Run.Band, o.Case.Spread())
	}
	c.Gain = noInterval
	if len(c.Libraries) < 2 {
		return
	}
	c.Gain, c.Interleaved = c.Libraries[1].ratioTo(c.Libraries[0])
}

// ratioTo returns o's time divided by `other`'s time. `turns` is true if both libraries ran in the same rounds.
func (o LibraryTime) ratioTo(other LibraryTime) (ratio record.Interval, turns bool) {
	if t := o.Run.Run.InterleaveID; t != "" && t == other.Run.Run.InterleaveID {
		return o.Entry.Ratio(other.Entry).Interval, true
	}
	return o.Entry.independentRatio(other.Entry, o.Run.Run.Machine.SessionSpread()).Interval, false
}

// sameHardware returns an error if the runs' PCI id, architecture or number of SMs differ.
func sameHardware(runs []*Loaded) error {
	what := func(l *Loaded) string {
		m := l.Run.Machine
		return fmt.Sprintf("%s, %d SMs", strings.TrimSpace(m.PCIID+" "+m.Arch), m.SMs)
	}
	for _, l := range runs[1:] {
		if a, b := what(runs[0]), what(l); a != b {
			return fmt.Errorf("%s was measured on %s, %s on %s", runs[0].Path, a, l.Path, b)
		}
	}
	return nil
}

// FastestTable returns a table with one row for each comparison.
func FastestTable(choices []LibraryComparison) Table {
	cases := casesOf(choices)
	p := ColumnsFor(cases)
	t := Table{Name: "choices", Title: "Which library is fastest at the same work", Columns: append(p.Columns,
		Words("work").Keyed(), Words("library"), Words("config").Dropped(2), Numbers("time", "us"), Numbers("its gain", "x").Dropped(3),
		Numbers("its low", "x").Dropped(4), Numbers("its high", "x").Dropped(4), Words("next"), Numbers("next time", "us"), Numbers("faster by", "x"), Numbers("low", "x").Dropped(1), Numbers("high", "x").Dropped(1), Words("verdict"))}
	for i, c := range choices {
		t.Add(append(p.Cells(cases[i]), c.cells()...)...)
	}
	t.Note(p.Shared, "work: the layout, the kind of sum, the steps that the time includes, and the clock. Times of different work are not compared",
		"column 'its gain': the time of the library's own default divided by the library's tuned time, in the same rounds. Column 'faster by': the time of the next library divided by the time of the fastest. Columns 'low' and 'high': 95 % intervals")
	t.Note(howCompared(choices))
	t.Note(ownGains(choices)...)
	warnOfSeeds(&t, choices)
	for _, s := range switchPoints(choices) {
		t.Note(s)
	}
	return t
}

func casesOf(choices []LibraryComparison) []*Case {
	var cases []*Case
	for _, c := range choices {
		p := c.Problem
		p.MaxTokens = max(p.Tokens, 1)
		cases = append(cases, &Case{Problem: p, Routing: c.Routing, Seed: c.seed()})
	}
	return cases
}

func warnOfSeeds(t *Table, choices []LibraryComparison) {
	for i, c := range choices {
		for _, other := range choices[i+1:] {
			if c.Work == other.Work && c.Problem == other.Problem && c.Routing == other.Routing && c.seed() != other.seed() {
				t.Warn("%s has seed %d, %s has seed %d: the seed changes which experts tokens select, so these runs are not compared; give both sweeps the same --seed",
					c.Libraries[0].Run.Name(), c.seed(), other.Libraries[0].Run.Name(), other.seed())
				return
			}
		}
	}
}

func howCompared(choices []LibraryComparison) string {
	compared, turns := 0, 0
	for _, c := range choices {
		if len(c.Libraries) > 1 {
			compared++
		}
		if c.Interleaved {
			turns++
		}
	}
	if compared == 0 {
		return "no two libraries did the same work in one case, so no times are compared"
	}
	switch turns {
	case 0:
		return "the runs came one after the other: a few per cent may be the machine's drift; epbench interleave measures without this drift"
	case compared:
		return "the libraries took turns, round by round: a drift of the machine slows all libraries alike"
	}
	return fmt.Sprintf("in %d of %d comparisons the libraries took turns; in the others the runs came one after the other", turns, compared)
}

func (c LibraryComparison) cells() []Cell {
	first := c.Libraries[0]
	own := first.Own()
	out := append([]Cell{Str(c.Work), Str(first.Library), {Text: first.Case.Label(first.Entry), Value: first.Entry.Key}, Micros(first.Entry.Median.Mid)},
		GainCells(own)...)
	if len(c.Libraries) == 1 {
		return append(out, None(), None(), None(), None(), None(), Str("alone"))
	}
	verdict := Str("same")
	if c.Decided() {
		verdict = Str("faster").Marked(Good)
	}
	second := c.Libraries[1]
	return append(out, Str(second.Library), Micros(second.Entry.Median.Mid), Gain(c.Gain.Mid), Gain(c.Gain.Low), Gain(c.Gain.High), verdict)
}

// switchPoints lists the token counts at which the fastest library changes.
func switchPoints(choices []LibraryComparison) []string {
	var out []string
	for len(choices) > 0 {
		n := slices.IndexFunc(choices, func(c LibraryComparison) bool { return c.line() != choices[0].line() })
		if n < 0 {
			n = len(choices)
		}
		if s := switchPoint(choices[:n]); s != "" {
			out = append(out, s)
		}
		choices = choices[n:]
	}
	return out
}

func (c LibraryComparison) line() string {
	return fmt.Sprint(c.Problem.Shape().Key(), c.Routing, c.seed(), c.Work)
}

func switchPoint(line []LibraryComparison) string {
	var steps []string
	current := ""
	for _, c := range line {
		if len(c.Libraries) < 2 {
			continue
		}
		if name := c.nextAfter(current); name != current {
			current = name
			steps = append(steps, fmt.Sprintf("from %s on %s", ep.Tokens(c.Problem.Tokens), name))
		}
	}
	if len(steps) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s (%s): %s", line[0].Problem.Op, line[0].Routing, line[0].Work, strings.Join(steps, ", "))
}
