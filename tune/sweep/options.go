// Package sweep joins what searches with what measures. MakePlan lists the
// searches of a sweep, one for each problem and routing; Run carries them out,
// and writes a run directory and a tuned table.
//
// A search measures its candidates, compares the finalists with the oracle
// again, and decides by search.State.Conclude. When all are done, the winners of
// each problem are measured under one another's routings (crossGroup), which
// gives the regret matrix and the row for all routings. Rows of neighbouring
// token counts meet where a config between them was measured (bound).
//
// Bench, AB and Matcher compare given configs without a search. They measure
// through the same lab.
package sweep

import (
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/spacefile"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// Options say what to sweep.
type Options struct {
	Problems      []ep.Problem
	Distributions []workloads.Distribution
	Seed          uint64
	Strategy      string
	Evaluations   int           // distinct configs of one search, 0 for all
	Time          time.Duration // of the whole sweep, 0 for no bound

	Params    map[string][]ep.Value // values by parameter, instead of the kernels' own
	Kernels   []string              // names to search, nil for all
	MaxSMs    int                   // of a config, 0 for no bound
	Band      float64               // least difference that counts, where it is above the policy's
	Precision ep.Precision          // Reduced searches parameters that round what travels, too
	Space     *spacefile.File       // further rules and values, or nil
	Incumbent *table.Table          // the table in use, or nil

	Tool     string // version of epbench
	Progress func(Event)
}

// Event says how far a sweep is.
type Event struct {
	Done, All int // searches
	Title     string
	Stage     record.Stage
}

// searchBudget is the budget of one search when left are to be done. A share
// of the time is kept for what follows the searches.
func (o Options) searchBudget(spent time.Duration, left int) search.Budget {
	b := search.Budget{Evaluations: o.Evaluations}
	if o.Time > 0 {
		rest := time.Duration(float64(o.Time)*searchShare) - spent
		b.Time = max(rest/time.Duration(left), time.Millisecond)
	}
	return b
}

// searchShare of a time budget goes to searches; crossing routings and
// refining intervals take the rest.
const searchShare = 0.85
