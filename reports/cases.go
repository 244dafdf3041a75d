// Package reports analyses the files of a run and makes tables of the results. A run is one execution of a command that
// measures, such as epbench sweep. Other packages print the tables as text, HTML or pictures.
//
// A [Case] is one problem (operation, model shape, token count) under one routing, which says which experts the tokens
// select. An [Entry] is one config, which is a kernel with its launch parameters, and its times in that case.
package reports

import (
	"cmp"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

var noInterval = record.Interval{Mid: math.NaN(), Low: math.NaN(), High: math.NaN()}

// Case holds everything that a run measured and decided for one problem under one routing.
type Case struct {
	Problem ep.Problem
	Routing string
	Seed    uint64
	Entries []*Entry         // the fastest first (by Level, then by Key); entries without times are last
	AA      *record.AA       // the A/A test: how much the times of the default config differ from each other; nil if it was not made
	Load    *record.Workload // the messages and bytes that the routing needs; nil if unknown
	Search  *record.Search   // what the search decided; nil if the case was measured without a search
}

// Entry is one config of a case, with its measurements.
type Entry struct {
	Config ep.Config
	Key    string
	Cost   ep.Cost
	Role   record.Role
	Status ep.Status // ok, or the first other status of a measurement
	Reason string    // why Status is not ok
	Clock  string
	Fresh  bool             // Times were measured after the search had chosen this config
	Times  []float64        // seconds of the slowest rank in each round; pickDecidingRounds says in which rounds
	rounds []Timed          // the rounds of Times
	Median record.Interval  // median of Times in seconds; for the winner and the default config, the median that run.json holds
	Level  float64          // time in seconds, without disturbances that slow all configs of a round; see levels
	Blocks []*record.Result // the lines of the log for this config, the oldest first
}

// caseID tells cases apart.
type caseID struct {
	problem ep.Problem
	routing string
	seed    uint64
}

// Cases groups results into cases, ordered by operation, dtype, shape, routing and token count. It leaves out cases that
// have no search of their own: a sweep also measures winners at token counts between those that it searches.
func Cases(run *record.Run, results []record.Result) []*Case {
	return slices.DeleteFunc(allCases(run, results), (*Case).isBetweenSearches)
}

// isBetweenSearches reports whether a sweep measured the case only with winners of other searches.
func (c *Case) isBetweenSearches() bool {
	return c.Search == nil && !slices.ContainsFunc(c.Entries, func(e *Entry) bool {
		return slices.ContainsFunc(e.Blocks, func(b *record.Result) bool {
			return b.Stage != record.StageCross && b.Stage != record.StageRecheck
		})
	})
}

// allCases groups results into cases, and does not leave out any.
func allCases(run *record.Run, results []record.Result) []*Case {
	byID := map[caseID]*caseBuilder{}
	routings := map[string]int{}
	var cases []*Case
	for i := range results {
		r := &results[i]
		id := caseID{r.Problem, r.Routing, r.Seed}
		b := byID[id]
		if b == nil {
			if _, ok := routings[r.Routing]; !ok {
				routings[r.Routing] = len(routings)
			}
			b = &caseBuilder{Case: &Case{Problem: r.Problem, Routing: r.Routing, Seed: r.Seed}, entries: map[string]*Entry{}}
			byID[id] = b
			cases = append(cases, b.Case)
		}
		b.add(r)
	}
	for _, c := range cases {
		c.finish(run)
	}
	slices.SortStableFunc(cases, func(a, b *Case) int {
		return cmp.Or(compareShape(a.Problem, b.Problem), cmp.Compare(routings[a.Routing], routings[b.Routing]),
			cmp.Compare(a.Problem.Tokens, b.Problem.Tokens), cmp.Compare(a.Problem.MaxTokens, b.Problem.MaxTokens), cmp.Compare(a.Seed, b.Seed))
	})
	return cases
}

// compareShape orders problems without regard to their token counts.
func compareShape(a, b ep.Problem) int {
	a, b = a.Shape(), b.Shape()
	return cmp.Or(
		cmp.Compare(slices.Index(ep.Ops(), a.Op), slices.Index(ep.Ops(), b.Op)),
		cmp.Compare(slices.Index(ep.DTypes(), a.Dispatch), slices.Index(ep.DTypes(), b.Dispatch)),
		cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Hidden, b.Hidden), cmp.Compare(a.Key(), b.Key()))
}

// caseBuilder collects the entries of a case. The config of an entry can occur twice: the A/A test measures the default
// config a second time under the role record.Twin. The configs of other libraries have the role record.Peer.
type caseBuilder struct {
	*Case
	entries map[string]*Entry // the key is Config.Key, after the role if it is Twin or Peer
}

// add adds one line of the log.
func (b *caseBuilder) add(r *record.Result) {
	key := r.Config.Key()
	id := key
	if r.Role == record.Twin || r.Role == record.Peer {
		id = string(r.Role) + " " + key
	}
	e := b.entries[id]
	if e == nil {
		e = &Entry{Config: r.Config, Cost: r.Cost, Key: key, Role: r.Role, Status: ep.OK}
		b.entries[id] = e
		b.Entries = append(b.Entries, e)
	}
	if e.Role == record.Candidate {
		e.Role = r.Role
	}
	if r.Status != ep.OK && e.Status == ep.OK {
		e.Status, e.Reason = r.Status, r.Reason
	}
	if r.Clock != "" {
		e.Clock = r.Clock
	}
	e.Blocks = append(e.Blocks, r)
}

// finish computes the times of the entries, and sorts the entries by them.
func (c *Case) finish(run *record.Run) {
	for _, e := range c.Entries {
		e.pickDecidingRounds()
	}
	c.findRecords(run)
	c.levels()
	level := func(e *Entry) float64 {
		if e.OK() {
			return e.Level
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(c.Entries, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(level(a), level(b)), cmp.Compare(a.Key, b.Key))
	})
}

// findRecords takes from the run what it says about this case.
func (c *Case) findRecords(run *record.Run) {
	key := c.Problem.Key()
	c.AA = find(run.AA, func(a record.AA) bool { return a.Problem == key && a.Routing == c.Routing })
	c.Search = find(run.Searches, func(s record.Search) bool { return s.Problem == c.Problem && s.Routing == c.Routing })
	c.Load = c.drawnWorkload(run)
	if c.Search != nil && c.Search.OK() {
		c.useRecordedMedian(c.Search.Decision.Default, c.Search.DefaultTimes)
		c.useRecordedMedian(c.Search.Decision.Config, c.Search.Times)
	}
}

func (c *Case) drawnWorkload(run *record.Run) *record.Workload {
	key := c.Problem.Key()
	return find(run.Workloads, func(w record.Workload) bool { return w.Problem == key && w.Routing == c.Routing && w.Seed == c.Seed })
}

func find[T any](list []T, wanted func(T) bool) *T {
	if i := slices.IndexFunc(list, wanted); i >= 0 {
		return &list[i]
	}
	return nil
}

func (c *Case) first(wanted func(*Entry) bool) *Entry {
	if e := find(c.Entries, wanted); e != nil {
		return *e
	}
	return nil
}

// useRecordedMedian replaces the median of a config's entry by the median in run.json. If a run was stopped and resumed,
// the log has rounds of the stopped measurement too, which the median in run.json does not include.
func (c *Case) useRecordedMedian(cfg ep.Config, t record.Times) {
	if e := c.entryOf(cfg); e != nil && t.Median > 0 {
		e.Median.Mid = t.Median
		e.Median.Low, e.Median.High = min(e.Median.Low, t.Median), max(e.Median.High, t.Median)
	}
}

// OK reports whether the entry has times and never failed. It is false if the median is 0, because then the clock was too
// coarse for the calls.
func (e *Entry) OK() bool { return e.Status == ep.OK && e.Median.Mid > 0 }

// P returns the p-quantile of Times in seconds.
func (e *Entry) P(p float64) float64 { return stat.Quantile(e.Times, p) }

// Label returns a short name of an entry: the word "default" or "twin" for the default config, the name of the kernel
// for another library, and the values that differ from the default config for all others.
func (c *Case) Label(e *Entry) string {
	switch e.Role {
	case record.Twin, record.Default:
		return string(e.Role)
	case record.Peer:
		return e.Config.Kernel
	}
	return e.Config.Difference(c.defaultConfig())
}

// defaultConfig returns the default config of the case, or the zero Config if it is unknown.
func (c *Case) defaultConfig() ep.Config {
	if c.Search != nil {
		return c.Search.Decision.Default
	}
	if d := c.Default(); d != nil {
		return d.Config
	}
	return ep.Config{}
}

func (c *Case) Cells(e *Entry) []Cell {
	id := Str(e.Config.ID())
	if e.Role == record.Peer {
		id = None()
	}
	return []Cell{id, {Text: c.Label(e), Value: e.Key}}
}

// Default returns the entry of the default config, or nil if it was not measured.
func (c *Case) Default() *Entry {
	return c.first(func(e *Entry) bool { return e.Role == record.Default })
}

// Best returns the fastest entry for which Timed and Fresh hold. If there is none, it returns the fastest entry for which
// Timed holds, or nil.
func (c *Case) Best() *Entry {
	if e := c.first(func(e *Entry) bool { return e.Timed() && e.Fresh }); e != nil {
		return e
	}
	return c.first((*Entry).Timed)
}

// Timed reports whether the entry has times and may win. The configs of other libraries (peers) and the second entry of
// the default config (the twin) may not.
func (e *Entry) Timed() bool { return e.OK() && e.Role != record.Twin && e.Role != record.Peer }

// Winner returns the entry of the config that won the search. If the case was not searched, it returns Best.
func (c *Case) Winner() *Entry {
	if c.Search != nil {
		if e := c.entryOf(c.Search.Decision.Config); e != nil {
			return e
		}
	}
	return c.Best()
}

// Spread returns how much the times of the default config differ from each other in the A/A test, as a fraction. It
// returns 0 if the test was not made.
func (c *Case) Spread() float64 {
	if c.AA == nil {
		return 0
	}
	return c.AA.Spread
}
