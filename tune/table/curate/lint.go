package curate

import (
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// Severity says whether a table with a finding may be shipped.
type Severity string

const (
	Bad  Severity = "error"   // the table should not be shipped
	Note Severity = "warning" // the user should know this before using the table
)

// Finding is one fault of a table. Row is the row's index, or -1 if the fault concerns the whole table.
type Finding struct {
	Row      int
	Severity Severity
	Rule     string
	Text     string
}

// A Legality returns why a config cannot run, or nil.
type Legality func(ep.Machine, ep.Problem, ep.Config) error

// minRounds is the least number of rounds for a meaningful interval.
const minRounds = 10

// farEnd is the largest accepted ratio between a row's end and the nearest measured token count.
const farEnd = 4

// Every search begins with about fewTried configs.
const fewTried = 10

// leastShare is the share of legal configs that a search should try.
const leastShare = 0.1

type linter struct {
	header table.Header
	row    int
	found  []Finding
}

func (l *linter) add(fault bool, s Severity, rule, format string, args ...any) {
	if fault {
		l.found = append(l.found, Finding{l.row, s, rule, fmt.Sprintf(format, args...)})
	}
}

// Lint returns the faults of a table, in the order of rows. Two times count as equal if their relative difference is at
// most `band`.
func Lint(t *table.Table, legal Legality, band float64) []Finding {
	h := t.Header
	l := &linter{header: h, row: -1}
	l.add(h.Edited, Bad, "edited", "the content was changed after it was written")
	l.add(h.AA > band, Bad, "aa", "the default differs from itself by %.2f %%, more than the band of %.2f %%: the machine was not quiet", 100*h.AA, 100*band)
	l.add(h.ABI == "", Note, "abi", "no hash of kernels: nobody would notice a changed kernel")
	l.share(t.Rows)
	served := map[table.Key]bool{}
	for _, r := range t.Rows {
		if r.Key.Routing == ep.Even || r.Key.Routing == ep.AllRoutings {
			served[anyRouting(r.Key)] = true
		}
	}
	for i, r := range t.Rows {
		l.row = i
		l.gain(r)
		l.evidence(r)
		l.legal(r, legal)
		if i > 0 {
			p := t.Rows[i-1]
			l.add(p.Key == r.Key && p.Hi+1 < r.Lo, Note, "hole", "tokens %d to %d before this row have no row", p.Hi+1, r.Lo-1)
		}
		k := anyRouting(r.Key)
		l.add(!served[k], Note, "hole", "there is no row of routing class all or even: an unknown routing gets a row for uneven routings")
		served[k] = true // report each key only once
	}
	return l.found
}

func anyRouting(k table.Key) table.Key {
	k.Routing = ep.AllRoutings
	return k
}

// gain checks the gain of a row. A row for several routings has the gain of its worst routing, which may be below 1.
func (l *linter) gain(r table.Row) {
	if l.header.IsDefault(r) {
		return
	}
	e := r.Evidence
	low, high := l.header.GainInterval(r)
	l.add(!l.header.Certain(r), Bad, "gain", "gain %.3f [%.3f, %.3f] over sessions does not exclude 1: keep the default", e.Gain, low, high)
	l.add(math.Abs(math.Log(e.Gain)) < math.Log1p(l.header.AA), Note, "spread", "gain %.3f is within the run's largest A/A spread of %.2f %%", e.Gain, 100*l.header.AA)
	l.add(r.OfSeveral() && e.GainLow <= 1, Note, "worst", "under its worst routing the gain is %.3f [%.3f, %.3f]", e.Gain, e.GainLow, e.GainHigh)
}

func (l *linter) evidence(r table.Row) {
	e := r.Evidence
	l.add(e.GainLow > e.Gain || e.Gain > e.GainHigh, Bad, "interval", "gain %.4f lies outside its interval [%.4f, %.4f]", e.Gain, e.GainLow, e.GainHigh)
	l.add(e.P10 > e.Median || e.Median > e.P90, Bad, "interval", "median %g lies outside p10 %g and p90 %g", e.Median, e.P10, e.P90)
	l.add(e.Ties > e.Tried, Bad, "interval", "%d ties among %d configs tried", e.Ties, e.Tried)
	l.add(e.Rounds == 0 || e.Median == 0 || e.Clock == "", Bad, "measured", "rounds, time or clock is missing")
	inside := func(n int) bool { return r.Lo <= n && n <= r.Hi }
	l.add(!slices.ContainsFunc(e.Tokens, inside), Bad, "measured", "no token count of %d to %d was measured", r.Lo, r.Hi)
	for _, end := range []int{r.Lo, r.Hi} {
		far := !slices.ContainsFunc(e.Tokens, func(n int) bool { return max(n, end) <= farEnd*max(1, min(n, end)) })
		l.add(far && len(e.Tokens) > 0, Note, "ends", "the row's end at %d tokens is more than a factor of %d from the nearest measured count: sweep --tokens %d", end, farEnd, end)
	}
	l.add(e.Rounds > 0 && e.Rounds < minRounds, Note, "rounds", "%d rounds; with fewer than %d an interval means little", e.Rounds, minRounds)
	n := len(e.Routings)
	l.add(restsOnOne(r), Bad, "routings", "the row serves every routing but was measured under %d", n)
	at, timed := e.At()
	l.add(timed && !inside(at), Note, "timed", "it was timed at %d tokens, outside its token interval", at)
	l.add(!fewOfLegal(r) && !e.Complete && e.Tried < fewTried, Note, "tried", "%d configs tried: give the sweep more --budget", e.Tried)
}

// restsOnOne reports whether a row for all routings was measured under fewer than two routings.
func restsOnOne(r table.Row) bool {
	return r.Key.Routing == ep.AllRoutings && len(r.Evidence.Routings) < 2
}

func fewOfLegal(r table.Row) bool {
	e := r.Evidence
	return !e.Complete && float64(e.Tried) < leastShare*float64(e.Legal)
}

func (l *linter) share(rows []table.Row) {
	few := 0
	var least table.Evidence
	for _, r := range rows {
		e := r.Evidence
		if !fewOfLegal(r) {
			continue
		}
		if few++; few == 1 || e.Tried*least.Legal < least.Tried*e.Legal {
			least = e
		}
	}
	l.add(few > 0, Note, "share", "for %d of %d rows less than %.0f %% of the legal configs were tried (for one of them %d of %d configs): give the sweep more --budget, or measure the whole space",
		few, len(rows), 100*leastShare, least.Tried, least.Legal)
}

func (l *linter) legal(r table.Row, legal Legality) {
	if legal == nil || r.Config.IsDefault() {
		return
	}
	for _, tokens := range []int{r.Lo, r.Hi} {
		if err := legal(l.header.Machine, r.Key.Problem(tokens), r.Config); err != nil {
			l.add(true, Bad, "legal", "at %d tokens: %v", tokens, err)
			return
		}
	}
}
