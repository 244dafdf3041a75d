package reports

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// unknown is the interval of what was not measured.
var unknown = record.Interval{Mid: math.NaN(), Low: math.NaN(), High: math.NaN()}

// Case is all that a run knows of one problem under one routing.
type Case struct {
	Problem ep.Problem
	Routing string
	Seed    uint64
	Entries []*Entry         // with times first, by level; equals by key
	AA      *record.AA       // nil when it was not measured
	Load    *record.Workload // what the routing drew, nil when unknown
	Search  *record.Search   // what the run concluded, nil when it did not get there
}

// Entry is one configuration of a case with everything measured of it.
type Entry struct {
	Config ep.Config
	Key    string // Config.Key
	Cost   ep.Cost
	Role   record.Role
	Status ep.Status // the first that is not ok
	Reason string    // why it is not ok
	Clock  string
	Fresh  bool             // Times are from confirmation
	Times  []float64        // seconds of each deciding round, the slowest rank's
	rounds []roundID        // of Times
	Median record.Interval  // seconds
	Level  float64          // seconds, cleared of drift: see levels
	Blocks []*record.Result // oldest first
}

// caseID tells cases apart.
type caseID struct {
	problem ep.Problem
	routing string
	seed    uint64
}

// Cases sorts a log into cases, in the order of op, format, shape, routing and
// tokens; routings come in the order of their first appearance.
func Cases(run *record.Run, results []record.Result) []*Case {
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
	a.Tokens, a.MaxTokens, b.Tokens, b.MaxTokens = 0, 0, 0, 0
	return cmp.Or(
		cmp.Compare(slices.Index(ep.Ops(), a.Op), slices.Index(ep.Ops(), b.Op)),
		cmp.Compare(slices.Index(ep.DTypes(), a.Dispatch), slices.Index(ep.DTypes(), b.Dispatch)),
		cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Hidden, b.Hidden), cmp.Compare(a.Key(), b.Key()))
}

type caseBuilder struct {
	*Case
	entries map[string]*Entry // by key; the twin and each peer apart
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

// finish computes what follows from the blocks.
func (c *Case) finish(run *record.Run) {
	for _, e := range c.Entries {
		e.decide()
	}
	c.levels()
	slices.SortStableFunc(c.Entries, func(a, b *Entry) int {
		if a.OK() != b.OK() {
			if a.OK() {
				return -1
			}
			return 1
		}
		if !a.OK() {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Key, b.Key))
	})
	key := c.Problem.Key()
	for i := range run.AA {
		if a := &run.AA[i]; a.Problem == key && a.Routing == c.Routing {
			c.AA = a
		}
	}
	for i := range run.Searches {
		if s := &run.Searches[i]; s.Problem == c.Problem && s.Routing == c.Routing {
			c.Search = s
		}
	}
	for i := range run.Workloads {
		if w := &run.Workloads[i]; w.Problem == key && w.Routing == c.Routing && w.Seed == c.Seed {
			c.Load = w
		}
	}
}

// OK reports whether the entry has times and nothing of it failed. A median
// of 0 is no time: its clock was too coarse.
func (e *Entry) OK() bool { return e.Status == ep.OK && e.Median.Mid > 0 }

// P is the p-quantile of the deciding rounds in seconds.
func (e *Entry) P(p float64) float64 { return stat.Quantile(e.Times, p) }

// Label is what tables and plots call the entry.
func (e *Entry) Label() string {
	switch {
	case e.Role == record.Twin:
		return "twin"
	case e.Role == record.Peer:
		return e.Config.Kernel
	case e.Config.IsDefault():
		return "default"
	}
	return e.Key
}

// Short is a cell for the entry's configuration: what differs from the case's
// default where the kernel is the same. Programs get the whole key.
func (c *Case) Short(e *Entry) Cell {
	cell := Str(e.Key)
	d := c.Default()
	switch {
	case e.Role == record.Default || d != nil && e.Key == d.Key:
		cell.Text = "default"
	case d != nil && d.Config.Kernel == e.Config.Kernel && len(d.Config.Values) == len(e.Config.Values):
		var differ []string
		for _, n := range e.Config.Names() {
			if e.Config.Values[n] != d.Config.Values[n] {
				differ = append(differ, n+"="+string(e.Config.Values[n]))
			}
		}
		cell.Text = strings.Join(differ, ",")
	}
	return cell
}

// DefaultNotes spells out the defaults that Short leaves out, one sentence for
// each kernel.
func DefaultNotes(cases []*Case) []string {
	var out []string
	for _, c := range cases {
		if d := c.Default(); d != nil {
			if s := "default: " + d.Key; !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// Default is the library's own choice, nil when it was not measured.
func (c *Case) Default() *Entry {
	for _, e := range c.Entries {
		if e.Role == record.Default {
			return e
		}
	}
	return nil
}

// Best is the fastest entry of ours that can be trusted, nil when there is
// none. Where anything was confirmed only what was confirmed can be best.
func (c *Case) Best() *Entry {
	var first *Entry
	for _, e := range c.Entries {
		if !e.OK() || e.Role == record.Twin || e.Role == record.Peer {
			continue
		}
		if e.Fresh {
			return e
		}
		if first == nil {
			first = e
		}
	}
	return first
}

// Winner is the entry of what the run decided to launch. Where it did not get
// to decide it is the fastest so far, and nil when nothing of ours has times.
func (c *Case) Winner() *Entry {
	if c.Search != nil {
		if e := c.entryOf(c.Search.Decision.Config); e != nil {
			return e
		}
	}
	return c.Best()
}

// Gain is the default's time over the winner's as the run decided it; NaN
// where it did not.
func (c *Case) Gain() record.Interval {
	if c.Search == nil || !c.Search.OK() {
		return unknown
	}
	return c.Search.Decision.Gain
}

// Spread is what the default differs from itself by in this case, 0 when that
// was not measured.
func (c *Case) Spread() float64 {
	if c.AA == nil {
		return 0
	}
	return c.AA.Spread
}
