// Package record writes and reads the files of a run.
//
// A run directory holds two files from which all others can be made. run.json, a Run, holds the request, the machine
// and the decisions. trials.jsonl, the log, holds the measurements, one Result in each line. A killed run loses at most
// one block of rounds, and can be resumed.
package record

import (
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema is the version of run.json and trials.jsonl.
const Schema = 2

const oldSchema = "schema %d, this version reads %d: an epbench from before v0.1.0 wrote it; sweep again into another directory"

// Result is one line of trials.jsonl: the rounds of one candidate in one block, or why there are none.
type Result struct {
	Schema      int              `json:"schema"`
	Seq         int              `json:"seq"`  // position in the log, from 0
	Time        time.Time        `json:"time"` // when the block ended, UTC
	Problem     ep.Problem       `json:"problem"`
	Routing     string           `json:"routing"` // canonical spec
	Seed        uint64           `json:"seed"`    // seed of the workload
	Config      ep.Config        `json:"config"`
	Cost        ep.Cost          `json:"cost"` // resources that Config takes
	Role        Role             `json:"role"`
	Stage       Stage            `json:"stage"`
	Block       int              `json:"block"`             // number within the stage
	Session     int              `json:"session,omitempty"` // number within the search, from 1; 0 in logs of older programs
	Status      ep.Status        `json:"status"`
	Reason      string           `json:"reason,omitempty"`
	Clock       string           `json:"clock,omitempty"`
	Fold        int              `json:"fold,omitempty"`         // each entry of Seconds is the mean of this many calls
	Seconds     [][]float64      `json:"seconds,omitempty"`      // [round][rank] seconds of one call
	Beside      *ep.BesideRounds `json:"beside,omitempty"`       // nil if no matrix product ran beside the calls
	Round0      int              `json:"round0"`                 // number of the first round; results with equal numbers are of the same round
	MHz         []float64        `json:"mhz,omitempty"`          // SM clock of each rank
	LayerStages []ep.StageTime   `json:"layer_stages,omitempty"` // times of the stages of op layer; absent for other ops, or if not measured
	MaxErr      float64          `json:"max_err"`                // largest error against the oracle, see kernels.Comparison
	Checked     int              `json:"checked"`                // rows compared with the oracle
	Wall        float64          `json:"wall"`                   // seconds of the whole block, the same in all its lines
	End         bool             `json:"end,omitempty"`          // marks the last line of a block; OpenDir drops a block without it
	Warnings    []string         `json:"warnings,omitempty"`
}

// Role says why a candidate was measured.
type Role string

const (
	Candidate Role = "candidate"
	Default   Role = "default"   // the default, which is in every round
	Incumbent Role = "incumbent" // the config of the table in use
	Analytic  Role = "analytic"  // a formula without measured times chose it
	Twin      Role = "twin"      // the default under a second label, for the A/A test
	Peer      Role = "peer"      // a config of another library
)

// SessionID returns a number that all blocks of one session share within a search. Logs of older programs do not number
// sessions: there each block of stage session counts as a session, and all other blocks together as one session.
func (r *Result) SessionID() int {
	if r.Session == 0 && r.Stage == StageSession {
		return -1 - r.Block
	}
	return r.Session
}

// Rounds returns the slowest rank's seconds of each round.
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

// The stages of a search, in their order.
const (
	StageAA       Stage = "aa"       // the default against itself
	StageRequired Stage = "required" // the candidates that every search measures, and no others: the host limits the time, or an earlier search had the same combine
	StageScreen   Stage = "screen"   // many candidates, a few rounds each
	StageHalving1 Stage = "halving1" // the best of the screen, with more rounds
	StageHalving2 Stage = "halving2" // the best of halving1, with more rounds
	StageModel    Stage = "model"    // points that the surrogate expects to be fast
	StageFinals   Stage = "finals"   // the best candidates on fresh rounds, to choose the challenger
	StageRetry    Stage = "retry"    // failed candidates again, in the rounds of the finalists
	StageRecheck  Stage = "recheck"  // comparison with the oracle after timing
	StageConfirm  Stage = "confirm"  // the challenger against the default on fresh rounds
	StageSession  Stage = "session"  // the chosen configs against the default in a further session
	StageCross    Stage = "cross"    // the winners of other routings, for the regret matrix
	StageRefine   Stage = "refine"   // winners at token counts between the requested ones; only progress messages have this stage, the log has cross
)

// The stages of commands that do not search.
const (
	StageBench  Stage = "bench"  // one config against the default
	StageAB     Stage = "ab"     // two configs side by side
	StageTurns  Stage = "turns"  // configs of several libraries, in turn
	StageVerify Stage = "verify" // a row of a table, measured again
	StageImport Stage = "import" // measured by another tool
)
