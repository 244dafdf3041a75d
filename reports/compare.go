package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// MinRounds is how many rounds a side needs before its median is believed.
const MinRounds = 10

// Compared is one case on both sides.
type Compared struct {
	Case    *Case // of A
	A, B    *Entry
	Ratio   stat.Ratio // time of B over time of A
	Cycles  float64    // the same in SM cycles, NaN when the clocks are not known
	Band    float64    // least relative difference that is claimed
	Verdict record.Verdict
	Reason  string // of a verdict that needs one
	Broken  bool   // nothing in B gives right answers where A did
}

// Comparison is a whole comparison.
type Comparison struct {
	A, B    *Loaded
	Cells   []Compared
	Geomean record.Interval // of the ratios; NaN without any
	Worst   int             // index of the greatest ratio, -1 without any
	Notes   []string        // what differs and was allowed to
}

// What picks the entries of a case that are compared.
type What string

const (
	OfChoice  What = "choice"  // what each side says to ship
	OfDefault What = "default" // the library default of each side
	OfConfigs What = "configs" // every configuration that both timed
)

// CompareOptions say what to compare and how finely.
type CompareOptions struct {
	What  What
	Band  float64         // least difference that is called one, as a fraction; 0 takes the wider of the runs' own
	Allow map[string]bool // machine, kernels, mode, clock: may differ
}

// NotComparable says what keeps two runs apart.
type NotComparable struct{ Differences []string }

func (e *NotComparable) Error() string {
	s := "not comparable: " + e.Differences[0]
	for _, d := range e.Differences[1:] {
		s += "; " + d
	}
	return s
}

// Compare judges B against A case by case. It returns *NotComparable when the
// runs differ in what o does not allow, or have no case in common.
func Compare(a, b *Loaded, o CompareOptions) (*Comparison, error) {
	if o.Band == 0 {
		o.Band = max(a.Run.Band, b.Run.Band)
	}
	c := &Comparison{A: a, B: b, Worst: -1}
	var refused []string
	for _, d := range differences(a, b) {
		if o.Allow[d.what] {
			c.Notes = append(c.Notes, d.String())
		} else {
			refused = append(refused, d.String()+" (--allow "+d.what+" compares all the same)")
		}
	}
	if len(refused) > 0 {
		return nil, &NotComparable{refused}
	}
	c.pair(o)
	if !slices.ContainsFunc(c.Cells, func(x Compared) bool { return x.A != nil && x.B != nil || x.Broken }) {
		return nil, &NotComparable{[]string{"no case was measured on both sides" + modeHint(a, b, o)}}
	}
	c.judge()
	return c, nil
}

// difference is one thing that makes two runs unlike.
type difference struct{ what, a, b string }

func (d difference) String() string { return fmt.Sprintf("%s: %s against %s", d.what, d.a, d.b) }

func differences(a, b *Loaded) []difference {
	var out []difference
	for _, d := range []difference{
		{"machine", a.Run.Machine.Key(), b.Run.Machine.Key()},
		{"kernels", "ABI " + a.Run.ABI, "ABI " + b.Run.ABI},
	} {
		if d.a != d.b {
			out = append(out, d)
		}
	}
	return out
}

// modeHint explains an empty comparison when the mode is all that differs.
func modeHint(a, b *Loaded, o CompareOptions) string {
	if o.Allow["mode"] {
		return ""
	}
	for _, x := range a.Cases {
		if y := match(x, b.Cases, true); y != nil {
			return fmt.Sprintf("; mode: %s against %s (--allow mode compares all the same)", x.Problem.Mode, y.Problem.Mode)
		}
	}
	return ""
}

// match finds the case of the same problem and routing, of the same seed if
// there is one.
func match(c *Case, cases []*Case, anyMode bool) *Case {
	var found *Case
	for _, x := range cases {
		p := x.Problem
		if anyMode {
			p.Mode = c.Problem.Mode
		}
		if p != c.Problem || x.Routing != c.Routing {
			continue
		}
		if x.Seed == c.Seed {
			return x
		}
		if found == nil {
			found = x
		}
	}
	return found
}

// pair fills the cells with what is compared, not yet judged.
func (c *Comparison) pair(o CompareOptions) {
	for _, ca := range c.A.Cases {
		cb := match(ca, c.B.Cases, o.Allow["mode"])
		if cb == nil {
			x := Compared{Case: ca, Verdict: record.Undecided, Reason: "not measured in " + c.B.Name()}
			x.noRatio()
			c.Cells = append(c.Cells, x)
			continue
		}
		band := max(o.Band, ca.Spread(), cb.Spread())
		for _, x := range entries(ca, cb, o.What) {
			x.Case, x.Band = ca, band
			x.compare(o)
			c.Cells = append(c.Cells, x)
		}
	}
	for _, cb := range c.B.Cases {
		if match(cb, c.A.Cases, o.Allow["mode"]) == nil {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: only in %s", cb.Title(), c.B.Name()))
		}
	}
}

// entries pairs what a case has on both sides.
func entries(a, b *Case, what What) []Compared {
	switch what {
	case OfDefault:
		ea, eb := a.Default(), b.Default()
		return []Compared{{A: trusted(ea), B: trusted(eb), Broken: broke(ea, eb), Reason: failure(eb)}}
	case OfConfigs:
		var out []Compared
		for _, ea := range a.Entries {
			eb := b.find(ea)
			if ea.OK() && eb != nil && ea.Role != record.Twin {
				out = append(out, Compared{A: ea, B: trusted(eb), Broken: broke(ea, eb), Reason: failure(eb)})
			}
		}
		return out
	}
	x := Compared{A: shipped(a), B: shipped(b)}
	if x.A != nil && x.B == nil && len(b.Entries) > 0 {
		x.Broken, x.Reason = true, failure(b.Entries[0])
	}
	return []Compared{x}
}

// shipped is the choice of a case, or its fastest peer where nothing is ours.
func shipped(c *Case) *Entry {
	if winner := c.Winner(); winner != nil {
		return winner
	}
	for _, e := range c.Entries {
		if e.OK() && e.Role == record.Peer {
			return e
		}
	}
	return nil
}

func (c *Case) find(e *Entry) *Entry {
	for _, x := range c.Entries {
		if x.Key == e.Key && (x.Role == record.Twin) == (e.Role == record.Twin) && (x.Role == record.Peer) == (e.Role == record.Peer) {
			return x
		}
	}
	return nil
}

func trusted(e *Entry) *Entry {
	if e == nil || !e.OK() {
		return nil
	}
	return e
}

func broke(a, b *Entry) bool { return trusted(a) != nil && b != nil && b.Status != ep.OK }

func failure(e *Entry) string {
	if e == nil || e.Status == ep.OK {
		return ""
	}
	return string(e.Status) + ": " + e.Reason
}

func (x *Compared) noRatio() {
	nan := math.NaN()
	x.Ratio, x.Cycles = stat.Ratio{Interval: record.Interval{Mid: nan, Low: nan, High: nan}, StdErr: nan}, nan
}

// compare computes the ratio, and decides what needs no statistics.
func (x *Compared) compare(o CompareOptions) {
	x.noRatio()
	switch {
	case x.Broken:
		x.Verdict, x.Reason = record.Slower, "B fails: "+x.Reason
		return
	case x.A == nil || x.B == nil:
		x.Verdict, x.Reason = record.Undecided, "one side has no times"
		return
	case x.A.Clock != x.B.Clock && !o.Allow["clock"]:
		x.Verdict = record.Undecided
		x.Reason = fmt.Sprintf("clock: %s against %s (--allow clock compares all the same)", x.A.Clock, x.B.Clock)
		return
	case x.A.Median.Mid <= 0 || x.B.Median.Mid <= 0:
		x.Verdict, x.Reason = record.Undecided, "a median of 0: the clock is too coarse, fold more calls"
		return
	}
	x.Ratio = stat.RatioOfMedians(positive(x.B.Times), positive(x.A.Times), 1)
	if a, b := x.A.MHz(), x.B.MHz(); a > 0 && b > 0 {
		x.Cycles = x.Ratio.Mid * b / a
	}
	if n := min(len(x.A.Times), len(x.B.Times)); n < MinRounds {
		x.Verdict, x.Reason = record.Undecided, fmt.Sprintf("%d rounds on one side, at least %d are needed", n, MinRounds)
	}
}

func positive(xs []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(xs), func(x float64) bool { return x <= 0 })
}

// MHz is the median SM clock over blocks and ranks of an entry, 0 when it was
// not recorded.
func (e *Entry) MHz() float64 {
	var all []float64
	for _, b := range e.Blocks {
		all = append(all, b.MHz...)
	}
	if len(all) == 0 {
		return 0
	}
	return stat.Median(all)
}
