package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// defaultBand is the least relative difference that counts, for runs that do not record this number.
const defaultBand = 0.01

// MinRounds is the least number of rounds for a verdict other than undecided.
const MinRounds = 10

// Compared compares run B with run A in one case (a problem with its token count and routing), or for one config of a
// case.
type Compared struct {
	Case    *Case         // as in run A
	A, B    *Entry        // nil if not measured
	Ratio   stat.Estimate // time of B / time of A, NaN if unknown
	Cycles  float64       // SM cycles of B / SM cycles of A, NaN if unknown
	Band    float64       // smaller differences count as none
	Made    record.Band   // the policy's band, and the A/A spread between the default and itself; Band is the larger
	Verdict record.Verdict
	Reason  string // why undecided
	Broken  bool   // the config ran in A and failed in B

	// unknownSessions is true if all times come from one session. Ratio then assumes a spread between sessions.
	unknownSessions bool
}

// Comparison compares run B with run A.
type Comparison struct {
	A, B    *Loaded
	Cases   []Compared
	Geomean record.Interval // geometric mean of ratios; NaN if none
	Worst   int             // index of the largest ratio; -1 if none
	Notes   []string        // allowed differences, and other remarks

	live bool // A and B ran in the same rounds
	same bool // A and B are one recording
}

// The type What selects the entries of a case to compare.
type What string

const (
	OfWinner  What = "winner"
	OfDefault What = "default"
	OfConfigs What = "configs" // every config that has times in both runs
)

// CompareOptions holds the options of Compare.
type CompareOptions struct {
	What What
	Band float64 // a fraction; 0 means the larger of the two runs' bands

	// Allow holds differences to accept: "machine", "kernels", "mode", "clock", "sessions". If it has "sessions",
	// intervals ignore differences between sessions.
	Allow map[string]bool

	between float64 // standard deviation between sessions, as a fraction
}

// NotComparable is the error that Compare returns if runs cannot be compared.
type NotComparable struct{ Differences []string }

// Error lists the differences.
func (e *NotComparable) Error() string {
	return "not comparable: " + strings.Join(e.Differences, "; ")
}

// Compare judges run b against run a in each case.
func Compare(a, b *Loaded, o CompareOptions) (*Comparison, error) {
	o.Band = cmp.Or(o.Band, max(a.Run.Band, b.Run.Band), defaultBand)
	if !o.Allow["sessions"] {
		o.between = a.Run.Machine.SessionSpread()
	}
	c := &Comparison{A: a, B: b, Worst: -1}
	var refused []string
	for _, d := range []struct{ what, a, b string }{
		{"machine", a.Run.Machine.Key(), b.Run.Machine.Key()},
		{"kernels", "ABI " + a.Run.ABI.Short(), "ABI " + b.Run.ABI.Short()},
	} {
		if d.what == "kernels" && len(a.Run.ABI.Changed(b.Run.ABI)) == 0 {
			continue
		}
		differs := fmt.Sprintf("%s: %s against %s", d.what, d.a, d.b)
		switch {
		case d.a == d.b:
		case o.Allow[d.what]:
			c.Notes = append(c.Notes, differs)
		default:
			refused = append(refused, differs+" (--allow "+d.what+" compares them anyway)")
		}
	}
	refused = append(refused, otherTraces(a, b)...)
	if len(refused) > 0 {
		return nil, &NotComparable{refused}
	}
	c.pair(o)
	if !slices.ContainsFunc(c.Cases, func(x Compared) bool { return x.A != nil && x.B != nil }) {
		return nil, &NotComparable{[]string{"no case was measured on both sides" + whyNoCommonCase(a, b, o)}}
	}
	c.judge()
	c.markOneRecording()
	return c, nil
}

// otherTraces returns a text for each trace (recorded routing) that has the same name in both runs, but other content.
func otherTraces(a, b *Loaded) (out []string) {
	digest := func(spec string) string { return cmp.Or(ep.RoutingDigest(spec), "unknown") }
	theirs := routingsOf(b.Cases)
	for _, x := range routingsOf(a.Cases) {
		for _, y := range theirs {
			if ep.RoutingLabel(x) != ep.RoutingLabel(y) || ep.RoutingContent(x) == ep.RoutingContent(y) {
				continue
			}
			text := fmt.Sprintf("%s is a different routing in each run: digest %s against %s", ep.RoutingLabel(x), digest(x), digest(y))
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

func otherSeeds(a string, seedA uint64, b string, seedB uint64) string {
	return fmt.Sprintf("%s has seed %d, %s has seed %d: the seed changes which experts tokens select, and this may cause a part of a difference", a, seedA, b, seedB)
}

func (c *Comparison) pair(o CompareOptions) {
	inA, inB := indexCases(c.A.Cases, o.Allow["mode"]), indexCases(c.B.Cases, o.Allow["mode"])
	for _, ca := range c.A.Cases {
		cb := inB.match(ca)
		if cb == nil {
			x := Compared{Case: ca, Verdict: record.Undecided, Reason: "not measured in " + c.B.Name()}
			x.noRatio()
			c.Cases = append(c.Cases, x)
			continue
		}
		if ca.Seed != cb.Seed {
			c.note(otherSeeds(c.A.Name(), ca.Seed, c.B.Name(), cb.Seed))
		}
		for _, pair := range entries(ca, cb, o.What) {
			x := Compared{Case: ca, A: pair[0], B: pair[1], Made: record.Band{Policy: o.Band, AA: max(ca.Spread(), cb.Spread())}}
			x.Band = x.Made.Width()
			x.compare(o)
			c.Cases = append(c.Cases, x)
		}
	}
	for _, cb := range c.B.Cases {
		if inA.match(cb) == nil {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: only in %s", cb.Title(), c.B.Name()))
		}
	}
}

func (c *Comparison) note(text string) {
	if !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

func entries(a, b *Case, what What) (pairs [][2]*Entry) {
	switch what {
	case OfDefault:
		return [][2]*Entry{{a.Default(), b.Default()}}
	case OfConfigs:
		for _, e := range a.Entries {
			if same := b.counterpart(e); same != nil && e.OK() && e.Role != record.Twin {
				pairs = append(pairs, [2]*Entry{e, same})
			}
		}
		return pairs
	}
	return [][2]*Entry{{a.winnerOrPeer(), b.winnerOrPeer()}}
}

// winnerOrPeer returns the winner, or else another library's fastest entry, or else the first entry.
func (c *Case) winnerOrPeer() *Entry {
	if w := c.Winner(); w != nil || len(c.Entries) == 0 {
		return w
	}
	if peer := c.first(func(e *Entry) bool { return e.OK() && e.Role == record.Peer }); peer != nil {
		return peer
	}
	return c.Entries[0]
}

// counterpart returns c's entry with e's config, or nil. A twin (the default, measured again) matches only a twin. An
// entry of another library matches only such an entry.
func (c *Case) counterpart(e *Entry) *Entry {
	return c.first(func(x *Entry) bool {
		return x.Key == e.Key && (x.Role == record.Twin) == (e.Role == record.Twin) && (x.Role == record.Peer) == (e.Role == record.Peer)
	})
}

func (x *Compared) noRatio() {
	x.Ratio, x.Cycles = stat.Estimate{Interval: noInterval}, math.NaN()
}

// needsStatistics reports whether both sides have times. If not, it sets verdict and reason.
func (x *Compared) needsStatistics() bool {
	x.noRatio()
	x.Verdict = record.Undecided
	switch {
	case x.B != nil && x.B.Status != ep.OK && x.A != nil && x.A.OK():
		x.Verdict, x.Broken, x.Reason = record.Slower, true, "B fails: "+x.B.failure()
	case x.A != nil && x.A.Status != ep.OK:
		x.Reason = "A fails: " + x.A.failure()
	case x.A == nil || x.B == nil || len(x.A.Times) == 0 || len(x.B.Times) == 0:
		x.Reason = "one side has no times"
	case !x.A.OK() || !x.B.OK():
		x.Reason = "a median of 0: the clock is too coarse, so measure more calls in each round"
	default:
		x.Verdict = ""
	}
	return x.Verdict == ""
}

func (e *Entry) failure() string { return string(e.Status) + ": " + e.Reason }

func (x *Compared) requireRounds(rounds int) {
	if rounds < MinRounds {
		x.Verdict, x.Reason = record.Undecided, fmt.Sprintf("%d rounds, at least %d are needed", rounds, MinRounds)
	}
}

// compare computes Ratio. It treats the rounds of the two runs as independent samples.
func (x *Compared) compare(o CompareOptions) {
	if !x.needsStatistics() {
		return
	}
	if x.A.Clock != x.B.Clock && !o.Allow["clock"] {
		x.Verdict = record.Undecided
		x.Reason = fmt.Sprintf("clock: %s against %s (--allow clock compares them anyway)", x.A.Clock, x.B.Clock)
		return
	}
	x.Ratio = x.B.independentRatio(x.A, o.between)
	x.unknownSessions = x.Ratio.Sessions == 1 && o.between > 0
	if a, b := x.A.MHz(), x.B.MHz(); a > 0 && b > 0 {
		x.Cycles = x.Ratio.Mid * b / a
	}
	x.requireRounds(min(len(x.A.Times), len(x.B.Times)))
}

// MHz returns the median SM clock rate of an entry, 0 if none was recorded.
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

// ComparisonTable returns the table of a comparison.
func ComparisonTable(c *Comparison) Table {
	cases := make([]*Case, len(c.Cases))
	for i, x := range c.Cases {
		cases[i] = x.Case
	}
	p := ColumnsFor(cases)
	t := Table{Name: "compare", Title: fmt.Sprintf("%s (B) against %s (A)", c.B.Name(), c.A.Name()), Columns: p.Columns}
	t.Columns = append(t.Columns, Numbers("A", "us").Dropped(3), Numbers("B", "us").Dropped(2), Numbers("ratio", "x"),
		Numbers("low", "x"), Numbers("high", "x"), Numbers("cycles", "x").Dropped(4), Words("band").Dropped(5), Words("verdict"), Words("reason"))
	for _, x := range c.Cases {
		t.Add(append(p.Cells(x.Case), medianCell(x.A), x.timeOfB(c.live), Float(x.Ratio.Mid, 3), Float(x.Ratio.Low, 3), Float(x.Ratio.High, 3),
			Float(x.Cycles, 3), Str(x.Made.Short()), Str(string(x.Verdict)).Marked(verdictMarks[x.Verdict]), Str(x.Reason))...)
	}
	t.Note(p.Shared, c.ratioNote())
	t.Note(c.Summary())
	for _, n := range c.Notes {
		t.Warn("%s", n)
	}
	return t
}

func (c *Comparison) ratioNote() string {
	ratio := "ratio: time of B / time of A, from the rounds of all sessions"
	if c.live {
		ratio = "ratio: time of B / time of A in the same rounds; column B: time of A x ratio"
	}
	return ratio + "; low, high: its 95 % interval; band: the least difference that counts, from the policy or the A/A spread; of all differences found, at most 5 % are chance"
}

// timeOfB returns B's time. If A and B ran in the same rounds, A's time multiplied by the ratio is more exact than B's
// median.
func (x *Compared) timeOfB(live bool) Cell {
	if live && x.A != nil && x.Ratio.Mid > 0 {
		return Micros(x.A.Median.Mid * x.Ratio.Mid)
	}
	return medianCell(x.B)
}

var verdictMarks = map[record.Verdict]Mark{record.Same: Plain, record.Faster: Good, record.Slower: Bad, record.Undecided: Dim}

func medianCell(e *Entry) Cell {
	if e == nil {
		return None()
	}
	return Micros(e.Median.Mid)
}

// Summary counts the verdicts and names the mean and the worst ratio.
func (c *Comparison) Summary() string {
	counts := map[record.Verdict]int{}
	for _, x := range c.Cases {
		counts[x.Verdict]++
	}
	s := fmt.Sprintf("%s: %d same, %d faster, %d slower, %d undecided.", ep.Count(len(c.Cases), "case"), counts[record.Same], counts[record.Faster], counts[record.Slower], counts[record.Undecided])
	if c.Worst >= 0 {
		s += fmt.Sprintf(" Geometric mean %.4f (%.4f to %.4f); worst %.3f: %s.", c.Geomean.Mid, c.Geomean.Low, c.Geomean.High,
			c.Cases[c.Worst].Ratio.Mid, c.Cases[c.Worst].Case.Title())
	}
	return s + c.resolution()
}
