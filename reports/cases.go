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

// Case holds everything that a run measured and decided about one problem under one routing.
type Case struct {
	Problem ep.Problem
	Routing string
	Seed    uint64
	Entries []*Entry         // in order of Level, then of Key; without times last
	AA      *record.AA       // nil if there is none
	Load    *record.Workload // messages and bytes of the drawn routing, nil if unknown
	Search  *record.Search   // nil if there is none
}

// Entry is one config of a case with its measurements.
type Entry struct {
	Config ep.Config
	Key    string
	Cost   ep.Cost
	Role   record.Role
	Status ep.Status // the first status that is not ok; ok if there is none
	Reason string    // why Status is not ok
	Clock  string
	Fresh  bool             // Times come from confirmation or later sessions
	Times  []float64        // seconds of the slowest rank in each deciding round: see pickDecidingRounds
	rounds []Timed          // those of Times
	Median record.Interval  // median of Times in seconds; for winner and default the median in run.json
	Level  float64          // time in seconds, corrected for the drift between rounds: see levels
	Blocks []*record.Result // oldest first
}

type caseID struct {
	problem ep.Problem
	routing string
	seed    uint64
}

// Cases groups results into the cases that were searched, benched or imported, ordered by op, dtype, shape, routing
// and tokens.
func Cases(run *record.Run, results []record.Result) []*Case {
	return slices.DeleteFunc(allCases(run, results), (*Case).isBetweenSearches)
}

// isBetweenSearches reports whether a case has no search of its own.
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

// compareShape orders problems by everything but their token counts.
func compareShape(a, b ep.Problem) int {
	a, b = a.Shape(), b.Shape()
	return cmp.Or(
		cmp.Compare(slices.Index(ep.Ops(), a.Op), slices.Index(ep.Ops(), b.Op)),
		cmp.Compare(slices.Index(ep.DTypes(), a.Dispatch), slices.Index(ep.DTypes(), b.Dispatch)),
		cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Hidden, b.Hidden), cmp.Compare(a.Key(), b.Key()))
}

type caseBuilder struct {
	*Case
	entries map[string]*Entry // by Config.Key; keys of twin and peers begin with the role
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

// useRecordedMedian prefers the median in run.json, because the log of a restarted confirmation has both tries.
func (c *Case) useRecordedMedian(cfg ep.Config, t record.Times) {
	if e := c.entryOf(cfg); e != nil && t.Median > 0 {
		e.Median.Mid = t.Median
		e.Median.Low, e.Median.High = min(e.Median.Low, t.Median), max(e.Median.High, t.Median)
	}
}

// OK reports whether the entry has times and never failed. A median of 0 is not OK: the clock was too coarse.
func (e *Entry) OK() bool { return e.Status == ep.OK && e.Median.Mid > 0 }

// P returns the p-quantile of Times in seconds.
func (e *Entry) P(p float64) float64 { return stat.Quantile(e.Times, p) }

// Label returns a short name: a role, a peer's kernel, or the difference from the default.
func (c *Case) Label(e *Entry) string {
	switch e.Role {
	case record.Twin, record.Default:
		return string(e.Role)
	case record.Peer:
		return e.Config.Kernel
	}
	return e.Config.Difference(c.defaultConfig())
}

// defaultConfig returns the default's config, the zero Config if unknown.
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

// Default returns the entry of the default, nil if it was not measured.
func (c *Case) Default() *Entry {
	return c.first(func(e *Entry) bool { return e.Role == record.Default })
}

// Best returns the fastest entry of the confirmed ones (Fresh), or of all if none is confirmed. It ignores peers and
// twins, and returns nil if no entry has times.
func (c *Case) Best() *Entry {
	if e := c.first(func(e *Entry) bool { return e.Timed() && e.Fresh }); e != nil {
		return e
	}
	return c.first((*Entry).Timed)
}

// Timed reports whether the entry has times and is neither a peer nor a twin.
func (e *Entry) Timed() bool { return e.OK() && e.Role != record.Twin && e.Role != record.Peer }

// Winner returns the entry of the config that the run's decision names. Without a decision it returns Best.
func (c *Case) Winner() *Entry {
	if c.Search != nil {
		if e := c.entryOf(c.Search.Decision.Config); e != nil {
			return e
		}
	}
	return c.Best()
}

// Spread returns the A/A spread of the case: the relative difference of the default from itself.
func (c *Case) Spread() float64 {
	if c.AA == nil {
		return 0
	}
	return c.AA.Spread
}
