// Package record is what a run leaves on disk, and how it is written and read.
//
// A run directory holds run.json, a Run: what was asked for, where it ran and
// what it decided; and trials.jsonl, a Result a line: what was measured. The
// log is the truth. It is appended to in whole blocks of rounds, so that a run
// that is killed loses one block at most and can be resumed.
//
// A Decision is the one record of what won. Package stat makes it; every
// printer, picture and table reads it. Runs of schema 1, written before there
// were decisions, are read by schema1.go alone.
package record

import (
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema is the version of run.json and trials.jsonl.
const Schema = 2

// Result is one line of trials.jsonl: the rounds of one candidate in one block,
// or the reason why there are none.
type Result struct {
	Schema   int              `json:"schema"`
	Seq      int              `json:"seq"`  // position in the log, from 0
	Time     time.Time        `json:"time"` // when the block ended, UTC
	Problem  ep.Problem       `json:"problem"`
	Routing  string           `json:"routing"` // canonical spec
	Seed     uint64           `json:"seed"`    // of the workload
	Config   ep.Config        `json:"config"`
	Cost     ep.Cost          `json:"cost"` // what Config takes of the machine, as its kernel declares
	Role     Role             `json:"role"`
	Stage    Stage            `json:"stage"`
	Block    int              `json:"block"` // block number within the stage
	Status   ep.Status        `json:"status"`
	Reason   string           `json:"reason,omitempty"`
	Clock    string           `json:"clock,omitempty"`
	Fold     int              `json:"fold,omitempty"`
	Seconds  [][]float64      `json:"seconds,omitempty"` // [round][rank], of one call
	Beside   *ep.BesideRounds `json:"beside,omitempty"`  // what Seconds are made of, where a product ran beside the calls
	Round0   int              `json:"round0"`            // number of the first round; equal numbers were measured side by side
	MHz      []float64        `json:"mhz,omitempty"`     // SM clock a rank
	MaxErr   float64          `json:"max_err"`           // against the oracle, see kernels.Comparison
	Checked  int              `json:"checked"`           // rows compared with the oracle, 0 when this block verified nothing
	Wall     float64          `json:"wall"`              // seconds the whole block took, preparing and verifying included; equal on its lines
	End      bool             `json:"end,omitempty"`     // the last line of its block: a log cut before it is cut back to the block before
	Warnings []string         `json:"warnings,omitempty"`
}

// Role says why a candidate was measured.
type Role string

const (
	Candidate Role = "candidate"
	Default   Role = "default"   // in every round
	Incumbent Role = "incumbent" // the row of the table in use
	Analytic  Role = "analytic"  // what a model without measurements would choose
	Twin      Role = "twin"      // the default under a second label, for A/A
	Peer      Role = "peer"      // another library's, imported
)

// Rounds returns the seconds of each round: the slowest rank's.
func (r *Result) Rounds() []float64 {
	out := make([]float64, len(r.Seconds))
	for i, ranks := range r.Seconds {
		for _, s := range ranks {
			out[i] = max(out[i], s)
		}
	}
	return out
}

// Stage is the part of a run in which a block of rounds was measured.
type Stage string

// The stages of a search, in the order they happen.
const (
	StageAA         Stage = "aa"         // the default against itself
	StageRequired   Stage = "required"   // the required candidates alone, where launch parameters cannot matter
	StageScreen     Stage = "screen"     // many candidates, a few rounds each
	StageHalving1   Stage = "halving1"   // the best of the screen
	StageHalving2   Stage = "halving2"   // the best of the first heat
	StageStart      Stage = "start"      // where a walk begins
	StageAxis       Stage = "axis"       // all values of one parameter
	StageRestart    Stage = "restart"    // a random point to walk from
	StageClimb      Stage = "climb"      // the neighbours of a point
	StageJump       Stage = "jump"       // a random point near the best
	StageGeneration Stage = "generation" // children of a genetic search
	StageModel      Stage = "model"      // what a model of the space expects most of
	StageFinals     Stage = "finals"     // the best candidates on fresh rounds: the challenger is chosen from these
	StageRetry      Stage = "retry"      // failed candidates that get another chance, beside the finalists
	StageRecheck    Stage = "recheck"    // comparison with the oracle after timing
	StageConfirm    Stage = "confirm"    // the challenger against the default on fresh rounds: times and gains come from these
	StageSession    Stage = "session"    // the chosen configs against the default in a further session
	StageCross      Stage = "cross"      // the winners of other routings, for the regret matrix
	StageRefine     Stage = "refine"     // progress only: token counts between those asked for; its rounds are of stage cross
)

// The stages of commands that do not search.
const (
	StageBench  Stage = "bench"  // one config against the default
	StageAB     Stage = "ab"     // two configs side by side
	StageTurns  Stage = "turns"  // configs of several libraries, one library after the other in each round
	StageVerify Stage = "verify" // a row of a table measured again
	StageImport Stage = "import" // measured by another tool
)
