// Package reports makes tables from the files of a run, such as those of epbench sweep.
//
// A [Case] is one problem (operation, model shape, token count) under one routing, which selects the experts of each
// token. An [Entry] is one config (a kernel and its parameters) with its times in a case.
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

// Case holds all results for one problem under one routing.
type Case struct {
	Problem ep.Problem
	Routing string
	Seed    uint64
	Entries []*Entry         // fastest first; those without times are last
	AA      *record.AA       // two measurements of the default, compared; nil if not tested
	Load    *record.Workload // numbers of messages and bytes; nil if unknown
	Search  *record.Search   // nil if there was no search
}

// Entry is one config of a case, with its measurements.
type Entry struct {
	Config ep.Config
	Key    string
	Cost   ep.Cost
	Role   record.Role
	Status ep.Status // ok, or how the first failed measurement ended
	Reason string
	Clock  string
	Fresh  bool             // measured after the config was chosen
	Times  []float64        // seconds of the slowest rank, one for each round that counts: see pickDecidingRounds
	rounds []Timed          // of Times
	Median record.Interval  // of Times, or from run.json: see useRecordedMedian
	Level  float64          // median in seconds, corrected for drift
	Blocks []*record.Result // log lines, oldest first
}

type caseID struct {
	problem ep.Problem
	routing string
	seed    uint64
}

// Cases groups results into cases, ordered by operation, dtype, shape, routing and token count. In some
// cases there was no search: a sweep measured only the winners of other cases. The list leaves out these cases.
func Cases(run *record.Run, results []record.Result) []*Case {
	return slices.DeleteFunc(allCases(run, results), (*Case).isBetweenSearches)
}

// isBetweenSearches returns true if the case had no search, and only winners of searches for different cases were
// measured.
func (c *Case) isBetweenSearches() bool {
	return c.Search == nil && !slices.ContainsFunc(c.Entries, func(e *Entry) bool {
		return slices.ContainsFunc(e.Blocks, func(b *record.Result) bool {
			return b.Stage != record.StageCross && b.Stage != record.StageRecheck
		})
	})
}

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

func compareShape(a, b ep.Problem) int {
	a, b = a.Shape(), b.Shape()
	return cmp.Or(
		cmp.Compare(slices.Index(ep.Ops(), a.Op), slices.Index(ep.Ops(), b.Op)),
		cmp.Compare(slices.Index(ep.DTypes(), a.Dispatch), slices.Index(ep.DTypes(), b.Dispatch)),
		cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Hidden, b.Hidden), cmp.Compare(a.Key(), b.Key()))
}

type caseBuilder struct {
	*Case
	entries map[string]*Entry // by role and config key for twins and peers, by config key for all others
}

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

// useRecordedMedian replaces a config's median by the median in run.json. If a run was stopped and resumed, the log
// also has rounds of the stopped measurement. Then the median of the logged rounds is not the one in run.json.
func (c *Case) useRecordedMedian(cfg ep.Config, t record.Times) {
	if e := c.entryOf(cfg); e != nil && t.Median > 0 {
		e.Median.Mid = t.Median
		e.Median.Low, e.Median.High = min(e.Median.Low, t.Median), max(e.Median.High, t.Median)
	}
}

// OK reports whether the entry has times and never failed. It returns false for a median of 0, which a coarse clock
// may give.
func (e *Entry) OK() bool { return e.Status == ep.OK && e.Median.Mid > 0 }

// P returns the p-quantile of Times in seconds.
func (e *Entry) P(p float64) float64 { return stat.Quantile(e.Times, p) }

// Label returns the name of an entry in tables. The default has the label "default". Its twin, the default measured
// again, has the label "twin". A peer, which is a kernel of a compared library, has the kernel's name. The label of any
// other entry lists the values that differ from the default.
func (c *Case) Label(e *Entry) string {
	switch e.Role {
	case record.Twin, record.Default:
		return string(e.Role)
	case record.Peer:
		return e.Config.Kernel
	}
	return e.Config.Difference(c.defaultConfig())
}

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

// Default returns the entry of the default, or nil.
func (c *Case) Default() *Entry {
	return c.first(func(e *Entry) bool { return e.Role == record.Default })
}

// Best returns the fastest Timed entry among the Fresh ones. If none is Fresh, it returns the fastest Timed entry, or
// nil if there is none.
func (c *Case) Best() *Entry {
	if e := c.first(func(e *Entry) bool { return e.Timed() && e.Fresh }); e != nil {
		return e
	}
	return c.first((*Entry).Timed)
}

// Timed reports whether the entry has times and can win. Peers, which are kernels of compared libraries, cannot win.
// The twin, which is the default measured again, cannot win either.
func (e *Entry) Timed() bool { return e.OK() && e.Role != record.Twin && e.Role != record.Peer }

// Winner returns the entry of the search's winner. If there was no search, it returns Best.
func (c *Case) Winner() *Entry {
	if c.Search != nil {
		if e := c.entryOf(c.Search.Decision.Config); e != nil {
			return e
		}
	}
	return c.Best()
}

// Spread returns the A/A spread: how much two measurements of the default differ, as a fraction. It returns 0 if there
// was no A/A test.
func (c *Case) Spread() float64 {
	if c.AA == nil {
		return 0
	}
	return c.AA.Spread
}
