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

// defaultBand is the band of runs that recorded none, such as runs of other tools. A band is the least difference of two
// times that counts as a difference, as a fraction.
const defaultBand = 0.01

// MinRounds is the least number of rounds in which a config must have been measured. With fewer, its verdict is undecided.
const MinRounds = 10

// Compared is the comparison of one case, or of one config in a case, between the runs A and B. A case is one problem
// under one routing, which says which experts the tokens select.
type Compared struct {
	Case    *Case         // as in run A
	A, B    *Entry        // nil if not measured
	Ratio   stat.Estimate // time of B / time of A, NaN if unknown
	Cycles  float64       // SM cycles of B / SM cycles of A, NaN if unknown
	Band    float64       // smaller differences count as none
	Made    record.Band   // the two values of which Band is the larger one
	Verdict record.Verdict
	Reason  string // why the verdict is undecided, or what else differs
	Broken  bool   // the config ran in A and failed in B

	// unknownSessions is true if the times come from a single session, in which memory was laid out once. The interval of
	// Ratio then assumes how much times differ from session to session.
	unknownSessions bool
}

// Comparison holds the comparison of run B with run A.
type Comparison struct {
	A, B    *Loaded
	Cases   []Compared
	Geomean record.Interval // geometric mean of the ratios; NaN if there are none
	Worst   int             // index in Cases of the largest ratio; -1 if there are none
	Notes   []string        // differences between the runs that were allowed, and other remarks

	live bool // A and B were measured in the same rounds
	same bool // A and B are the same measurements
}

// What says which entries of a case are compared.
type What string

const (
	OfWinner  What = "winner"
	OfDefault What = "default"
	OfConfigs What = "configs" // every config that both timed
)

// CompareOptions holds the options of Compare.
type CompareOptions struct {
	What What
	Band float64 // smaller differences count as none, as a fraction; if Band is 0, the larger band of the two runs counts

	// Allow says which differences between the runs are no obstacle. Its keys are machine, kernels, mode, clock and
	// sessions. With sessions, times are assumed not to differ from session to session.
	Allow map[string]bool

	between float64 // how much times differ from session to session, see ep.Machine.SessionSpread
}

// NotComparable is the error that Compare returns if two runs cannot be compared.
type NotComparable struct{ Differences []string }

// Error lists the differences.
func (e *NotComparable) Error() string {
	return "not comparable: " + strings.Join(e.Differences, "; ")
}

// Compare compares run B with run A. It gives a verdict for each case.
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

// otherTraces returns a text for each file name under which the two runs used different recorded routings.
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

// otherSeeds returns a note that two runs drew their routings with different seeds.
func otherSeeds(a string, seedA uint64, b string, seedB uint64) string {
	return fmt.Sprintf("%s has seed %d, %s has seed %d: the seed changes which experts tokens select, and this may cause a part of a difference", a, seedA, b, seedB)
}

// pair finds the entries of both runs that belong together, and computes the ratio of their times.
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

// note adds a note that the comparison does not have yet.
func (c *Comparison) note(text string) {
	if !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// entries returns pairs of entries to compare: the first of a pair is from a, the second from b.
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

// winnerOrPeer returns the winner of the case. If there is none, it returns the fastest entry of another library, or else
// the first entry.
func (c *Case) winnerOrPeer() *Entry {
	if w := c.Winner(); w != nil || len(c.Entries) == 0 {
		return w
	}
	if peer := c.first(func(e *Entry) bool { return e.OK() && e.Role == record.Peer }); peer != nil {
		return peer
	}
	return c.Entries[0]
}

// counterpart returns the entry of c that has the same config as e, or nil. The second entry of the default config (the
// twin) has only another twin as counterpart, and an entry of another library (a peer) only another peer.
func (c *Case) counterpart(e *Entry) *Entry {
	return c.first(func(x *Entry) bool {
		return x.Key == e.Key && (x.Role == record.Twin) == (e.Role == record.Twin) && (x.Role == record.Peer) == (e.Role == record.Peer)
	})
}

// noRatio marks the ratio of the times as unknown.
func (x *Compared) noRatio() {
	x.Ratio, x.Cycles = stat.Estimate{Interval: noInterval}, math.NaN()
}

// needsStatistics reports whether both sides have times that can be compared. If not, it sets the verdict and the reason.
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
		x.Reason = "a median of 0: the clock is too coarse, fold more calls"
	default:
		x.Verdict = ""
	}
	return x.Verdict == ""
}

func (e *Entry) failure() string { return string(e.Status) + ": " + e.Reason }

// requireRounds makes the verdict undecided if there are too few rounds.
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

// MHz returns the median of the SM clock rates that were recorded for an entry, or 0 if there are none.
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

// ratioNote returns the note that explains the columns.
func (c *Comparison) ratioNote() string {
	ratio := "ratio: time of B / time of A, from the rounds of all sessions"
	if c.live {
		ratio = "ratio: time of B / time of A in the same rounds; B: the time of A times the ratio"
	}
	return ratio + "; low, high: its 95 % interval; band: the least difference that counts, from the policy or the A/A spread; of all differences found, at most 5 % are chance"
}

// timeOfB returns the cell for the time of B. If A and B were measured in the same rounds, it shows the time of A times
// the ratio. The ratio is more exact than the two times, because a disturbance slows A and B alike.
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

// Summary returns the number of cases with each verdict, the mean ratio, and the worst case. It also says how large the
// differences in undecided cases can be.
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
