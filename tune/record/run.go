package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

const (
	RunFile     = "run.json"
	TrialsFile  = "trials.jsonl"
	TableFile   = "table.json"
	SummaryFile = "summary.md"
	ReportFile  = "report.html"
	PlotsDir    = "plots"
)

// Protocol numbers the revisions of how backends measure on GPUs. It rises if a change of the code shifts
// measured times by more than their intervals. In revision 0, sessions could share memory addresses, and ranks did not
// leave the start barrier together.
const Protocol = 1

// Run holds the content of run.json.
type Run struct {
	Schema       int                `json:"schema"`
	Tool         string             `json:"tool"`
	Command      []string           `json:"command"`
	Started      time.Time          `json:"started"`
	Finished     time.Time          `json:"finished"` // zero until the run ends
	Machine      ep.Machine         `json:"machine"`
	ABI          ep.ABI             `json:"abi"`                // build of the kernels
	Space        string             `json:"space"`              // fingerprint of the search spaces
	Policy       string             `json:"policy"`             // measurement policy in canonical spelling
	Protocol     int                `json:"protocol,omitempty"` // see Protocol; 0 in older runs
	Band         float64            `json:"band"`               // relative difference up to which times are equal
	Seed         uint64             `json:"seed"`
	Strategy     string             `json:"strategy"`
	Routings     []string           `json:"routings,omitempty"` // such as zipf:1.0; a recorded routing is trace:FILE@DIGEST
	InterleaveID string             `json:"turns,omitempty"`    // equal in runs whose measurements alternated
	Empty        map[string]float64 `json:"empty,omitempty"`    // seconds that an empty kernel takes, for each clock
	AA           []AA               `json:"aa,omitempty"`
	Kernels      []Kernel           `json:"kernels,omitempty"` // kernels of the backend
	Spaces       []SpaceInfo        `json:"spaces,omitempty"`
	Workloads    []Workload         `json:"workloads,omitempty"`
	Planned      int                `json:"planned,omitempty"` // searches of a sweep
	Budget       float64            `json:"budget,omitempty"`  // seconds for the whole command; 0 for no bound
	Searches     []Search           `json:"searches,omitempty"`
	Regrets      []Regret           `json:"regrets,omitempty"`
	Allotted     []float64          `json:"allotted,omitempty"` // seconds for each search
	Retried      []string           `json:"retried,omitempty"`  // keys of configs that were tried again
	Warnings     []string           `json:"warnings,omitempty"`
	Wall         Wall               `json:"wall,omitzero"`
}

func (r *Run) check() error {
	if r.Machine.Backend == ep.Predicted {
		return fmt.Errorf("machine.backend: %s: a run directory holds measurements only; for predictions, run epbench model plan", r.Machine.Backend)
	}
	for i, s := range r.Searches {
		if err := s.Problem.Validate(); err != nil {
			return fmt.Errorf("searches[%d].problem: %w", i, err)
		}
		if d := s.Decision; !slices.Contains(Verdicts(), d.Verdict) || !slices.Contains(causes, d.Cause) {
			return fmt.Errorf("searches[%d].decision: unknown verdict %.20q or cause %.20q", i, d.Verdict, d.Cause)
		}
	}
	for i, g := range r.Regrets {
		short := func(row RegretRow) bool { return len(row.Loss) != len(g.Routings) }
		if len(g.Rows) != len(g.Routings)+1 || slices.ContainsFunc(g.Rows, short) {
			return fmt.Errorf("regrets[%d]: %d rows for %d routings; write one row more than routings, and in each row one loss for each routing", i, len(g.Rows), len(g.Routings))
		}
	}
	return nil
}

// Rehearsal returns a warning if the run used the CPU backend, otherwise "".
func (r *Run) Rehearsal() string {
	ranks := 0
	for _, s := range r.Searches {
		ranks = max(ranks, s.Problem.Ranks)
	}
	return r.Machine.Rehearsal(ranks)
}

// Kernel names a kernel and the work that its time includes.
type Kernel struct {
	Name string  `json:"name"`
	Op   ep.Op   `json:"op"`
	Work ep.Work `json:"work,omitzero"`
}

// Work returns the work that a config's time includes, or the zero Work.
func (r *Run) Work(op ep.Op, c ep.Config) ep.Work {
	if op == ep.Pair {
		dispatch, combine, err := ep.Split(c)
		if err != nil {
			return ep.Work{}
		}
		return r.Work(ep.Combine, combine).Pair(r.Work(ep.Dispatch, dispatch))
	}
	for _, k := range r.Kernels {
		if k.Op == op && k.Name == c.Kernel {
			return k.Work
		}
	}
	return ep.Work{}
}

// AA is the result of an A/A test: in each round, the default and an identical config, its twin, run once.
type AA struct {
	Problem string  `json:"problem"` // see ep.Problem.Key
	Routing string  `json:"routing"`
	Ratio   float64 `json:"ratio"`  // twin's time / default's time; median over rounds
	Spread  float64 `json:"spread"` // max(half the width of Ratio's 95 % interval, |Ratio-1|)
	Rounds  int     `json:"rounds"`
	Default float64 `json:"default"` // the default's median time in seconds

	// Sessions is the comparison over further sessions, or nil.
	Sessions *SessionsAA `json:"sessions,omitempty"`
}

// SessionsAA compares the default with its twin over sessions.
type SessionsAA struct {
	Ratio   Interval `json:"ratio"`   // twin's time / default's time
	Default float64  `json:"default"` // relative standard deviation of the default's medians
}

// SpaceInfo counts the points of a kernel's search space, and the points that pass all rules.
type SpaceInfo struct {
	Kernel   string      `json:"kernel"`
	Problem  string      `json:"problem"`
	Points   int         `json:"points"` // combinations of parameter values
	Legal    int         `json:"legal"`
	Rejected []Rejection `json:"rejected,omitempty"` // sorted by count, then by rule
}

// Rejection counts the points that one rule removed.
type Rejection struct {
	Rule  string `json:"rule"`
	Count int    `json:"count"`
}

// Workload records the traffic and skew of one routing.
type Workload struct {
	Problem   string   `json:"problem"`
	Routing   string   `json:"routing"`
	Seed      uint64   `json:"seed"`
	Class     ep.Class `json:"class"`
	BytesOut  int64    `json:"bytes_out"`  // bytes that leave the busiest rank if a token is sent to each of its experts
	BytesWire int64    `json:"bytes_wire"` // bytes that leave it if a token is sent once to each rank of its experts
	// BytesMemory is the memory traffic of op activation on the rank with the most rows.
	BytesMemory int64              `json:"bytes_memory,omitempty"`
	Stats       map[string]float64 `json:"stats"` // see workloads.Stats
}
