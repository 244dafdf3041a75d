package reports

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// Headline sums up the gains of a run and their certainty.
type Headline struct {
	All     Count
	Full    Count          // at full precision
	Reduced Count          // with reduced precision accepted
	Best    *record.Search // largest gain; nil if none

	// Challenger is nil, or the search that kept the default although its best other config has a gain. Of all such
	// searches, Challenger has the largest gain.
	Challenger *record.Search

	AA float64

	Sessions float64 // largest spread between sessions (fraction); 0: unknown
	Band     float64 // of the run's options
}

// Count sums up some searches of a run.
type Count struct {
	Searches int
	Verdicts map[record.Verdict]int // without Noisy and Failed ones
	Noisy    int                    // A/A spread above the band
	Failed   int                    // nothing was compared with the default
	Gain     record.Interval        // geometric mean over all but Failed

	gains []record.Interval
}

func (c *Count) add(s *record.Search) {
	if c.Verdicts == nil {
		c.Verdicts = map[record.Verdict]int{}
	}
	c.Searches++
	switch d := s.Decision; {
	case !s.OK():
		c.Failed++
		return
	case d.Cause == record.Noisy:
		c.Noisy++
	default:
		c.Verdicts[d.Verdict]++
	}
	c.gains = append(c.gains, s.Decision.Gain)
}

// Summarise computes the headline of a run.
func Summarise(run *record.Run) Headline {
	h := Headline{Band: run.Band}
	for i := range run.Searches {
		s := &run.Searches[i]
		h.All.add(s)
		if s.Problem.Precision == ep.Reduced {
			h.Reduced.add(s)
		} else {
			h.Full.add(s)
		}
		h.AA = max(h.AA, s.Decision.Band.AA)
		if challenged(*s) && (h.Challenger == nil || s.Decision.ChallengerGain.Mid > h.Challenger.Decision.ChallengerGain.Mid) {
			h.Challenger = s
		}
		if s.OK() && (h.Best == nil || s.Decision.Gain.Mid > h.Best.Decision.Gain.Mid) {
			h.Best = s
		}
	}
	for _, c := range []*Count{&h.All, &h.Full, &h.Reduced} {
		c.Gain = stat.GeoMean(c.gains)
	}
	for _, aa := range run.AA {
		if aa.Sessions != nil {
			h.Sessions = max(h.Sessions, aa.Sessions.Default)
		}
	}
	return h
}

// Lines returns the headline as sentences, the most important first.
func (h Headline) Lines() []string {
	switch {
	case h.All.Searches == 0:
		return []string{"Nothing was decided in this run."}
	case h.Best == nil:
		return []string{fmt.Sprintf("The default failed in all of %d cases: nothing could be compared.", h.All.Searches)}
	}
	var out []string
	switch {
	case h.All.Verdicts[record.Faster] == 0 && h.All.Searches == 1:
		out = append(out, "Keep the default: no config is faster.")
	case h.All.Verdicts[record.Faster] == 0:
		out = append(out, fmt.Sprintf("Keep the default: no config is faster in any of %d cases.", h.All.Searches))
	default:
		out = append(out, fmt.Sprintf("Faster than the default: %s; %.2fx at best (%s).", h.All, h.Best.Decision.Gain.Mid, Title(h.Best.Problem, h.Best.Routing)))
	}
	if h.Reduced.Searches > 0 && h.Full.Searches > 0 {
		out = append(out, fmt.Sprintf("Full precision: %s. Reduced precision: %s.", h.Full, h.Reduced))
	}
	if x := h.Challenger; x != nil && h.All.Verdicts[record.Faster] == 0 {
		out = append(out, fmt.Sprintf("The best other config gains %s (%s); a gain counts only if it exceeds the band of %.1f %% and its interval excludes 1.", spelledGain(x.Decision.ChallengerGain), Title(x.Problem, x.Routing), 100*x.Decision.Band.Width()))
	}
	if not := h.All.notConfirmed(); not != "" {
		out = append(out, "Not confirmed: "+not+".")
	}
	if h.AA > 0 {
		out = append(out, fmt.Sprintf("The largest A/A spread (the difference between the default and itself) is %.1f %%; the band is %.1f %% or the spread, whichever is larger.", 100*h.AA, 100*h.Band))
	}
	if h.Sessions > 0 {
		out = append(out, fmt.Sprintf("From session to session the default's time differs by up to %.1f %% (one standard deviation); the intervals include this difference.", 100*h.Sessions))
	}
	return out
}

// String returns the number of faster cases, the number of all cases, and the mean gain.
func (c Count) String() string {
	s := fmt.Sprintf("%d of %d cases", c.Verdicts[record.Faster], c.Searches)
	if !math.IsNaN(c.Gain.Mid) {
		s += fmt.Sprintf(", gain %.2fx [%.2f, %.2f] over all (geometric mean)", c.Gain.Mid, c.Gain.Low, c.Gain.High)
	}
	return s
}

func (c Count) notConfirmed() string {
	var out []string
	for _, x := range []struct {
		n    int
		what string
	}{{c.Verdicts[record.Undecided], "undecided"}, {c.Noisy, "too noisy to decide"}, {c.Failed, "because the default failed"}} {
		if x.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(out, ", ")
}

// SummaryTable returns the headline as one row, for programs.
func SummaryTable(run *record.Run, directory string, rows int) Table {
	h, n := Summarise(run), Numbers
	t := Table{Name: "run", Columns: []Column{Words("directory"), Words("machine"), Words("machine key"), n("cases", ""), n("faster", ""),
		n("same", ""), n("slower", ""), n("undecided", ""), n("noisy", ""), n("failed", ""),
		n("gain", "x"), n("low", "x"), n("high", "x"), n("A/A", "%"), n("band", "%"), n("rows", "")}}
	c := h.All
	t.Add(Str(directory), Str(run.Machine.Name), Str(run.Machine.Key()), Int(c.Searches), Int(c.Verdicts[record.Faster]),
		Int(c.Verdicts[record.Same]), Int(c.Verdicts[record.Slower]), Int(c.Verdicts[record.Undecided]), Int(c.Noisy), Int(c.Failed),
		Float(c.Gain.Mid, 3), Float(c.Gain.Low, 3), Float(c.Gain.High, 3), Float(100*h.AA, 2), Float(100*h.Band, 2), Int(rows))
	return t
}

const largestGains = 5

// LargestGains lists the searches with the largest gains. Their verdict is record.Faster.
func LargestGains(run *record.Run) Table {
	var of []int
	for i, s := range run.Searches {
		if s.Decision.Verdict == record.Faster && s.Decision.Usable() {
			of = append(of, i)
		}
	}
	slices.SortStableFunc(of, func(a, b int) int {
		return cmp.Compare(run.Searches[b].Decision.Gain.Mid, run.Searches[a].Decision.Gain.Mid)
	})
	shown := []string{"gain", "low", "high", "median", "id", "config"}
	columns := slices.DeleteFunc(slices.Clone(winnerColumns), func(c winnerColumn) bool { return !slices.Contains(shown, c.column.Name) })
	t := decisionTable(run, of[:min(len(of), largestGains)], columns)
	t.Name, t.Title, t.Notes = "largest", "The largest gains", nil
	return t
}

// GatherWarnings merges warnings that differ only in numbers and in the name of the case at their start.
func GatherWarnings(warnings []string) []string {
	var kinds []string
	first, count := map[string]string{}, map[string]int{}
	for _, w := range warnings {
		title, text, ok := strings.Cut(w, ": ")
		if !ok || !strings.Contains(title, " tokens, ") {
			text = w
		}
		kind := number.ReplaceAllString(text, "#")
		if count[kind]++; count[kind] == 1 {
			kinds, first[kind] = append(kinds, kind), w
		}
	}
	out := make([]string, len(kinds))
	for i, kind := range kinds {
		out[i] = first[kind]
		if n := count[kind]; n > 1 {
			out[i] = fmt.Sprintf("%d cases, the first: %s", n, first[kind])
		}
	}
	return out
}

var number = regexp.MustCompile(`[-+]?[0-9]+(\.[0-9]+)?`)
