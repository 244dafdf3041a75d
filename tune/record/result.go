// Package record writes and reads the files of a run. A run is one execution of a command that measures, such as
// epbench sweep.
//
// A run has a directory with two files, from which all other files can be made. The file run.json holds a [Run]: what
// the user asked for, the machine, and which config won each search. A config is a kernel with its launch parameters.
// The file trials.jsonl is the log of the measurements. Each of its lines holds a [Result].
//
// A block is a number of rounds. In each round every config of the block runs once. A session is a group of blocks
// whose buffers stay at the same memory addresses. Each rank is one GPU.
package record

import (
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema is the version of run.json and trials.jsonl.
const Schema = 2

const oldSchema = "schema %d, this version reads %d: an epbench from before v0.1.0 wrote it; sweep again into another directory"

// Result is one line of trials.jsonl: the times of one config in one block of rounds, or the reason why it has no
// times.
type Result struct {
	Schema      int              `json:"schema"`
	Seq         int              `json:"seq"`  // number of the line, from 0
	Time        time.Time        `json:"time"` // when the block ended, UTC
	Problem     ep.Problem       `json:"problem"`
	Routing     string           `json:"routing"` // spec of the routing, such as zipf:1.0
	Seed        uint64           `json:"seed"`    // seed of the random routing
	Config      ep.Config        `json:"config"`
	Cost        ep.Cost          `json:"cost"` // SMs, threads and bytes of Config
	Role        Role             `json:"role"`
	Stage       Stage            `json:"stage"`
	Block       int              `json:"block"`             // number of the block within the stage
	Session     int              `json:"session,omitempty"` // number of the session, from 1; 0 in old logs
	Status      ep.Status        `json:"status"`
	Reason      string           `json:"reason,omitempty"`       // why Status is not ok
	Clock       string           `json:"clock,omitempty"`        // how the times were measured
	Fold        int              `json:"fold,omitempty"`         // number of calls averaged in each entry of Seconds
	Seconds     [][]float64      `json:"seconds,omitempty"`      // [round][rank] seconds of one call
	Beside      *ep.BesideRounds `json:"beside,omitempty"`       // set if a matrix product ran at the same time
	Round0      int              `json:"round0"`                 // number of the first round in Seconds
	MHz         []float64        `json:"mhz,omitempty"`          // SM clock of each rank
	LayerStages []ep.StageTime   `json:"layer_stages,omitempty"` // times of the parts of a layer (--op layer)
	MaxErr      float64          `json:"max_err"`                // largest error of the outputs, see kernels.Comparison
	Checked     int              `json:"checked"`                // number of checked output rows
	Wall        float64          `json:"wall"`                   // seconds of the whole block, the same in all its lines
	End         bool             `json:"end,omitempty"`          // last line of a block; OpenDir drops unfinished blocks
	Warnings    []string         `json:"warnings,omitempty"`
}

// Role says why a config was measured.
type Role string

const (
	Candidate Role = "candidate" // the search chose it
	Default   Role = "default"   // the config launched without a tuned table
	Incumbent Role = "incumbent" // from the tuned table in use
	Analytic  Role = "analytic"  // from a formula
	Twin      Role = "twin"      // the default once more, for the A/A test
	Peer      Role = "peer"      // a config of another library
)

// SessionID returns the number of the session in which r was measured. Old logs have no session numbers. In an old log,
// each block of StageSession is a session with its own number below 0. All other blocks have the number 0.
func (r *Result) SessionID() int {
	if r.Session == 0 && r.Stage == StageSession {
		return -1 - r.Block
	}
	return r.Session
}

// Rounds returns the time of each round: the slowest rank's, in seconds.
func (r *Result) Rounds() []float64 {
	out := make([]float64, len(r.Seconds))
	for i, ranks := range r.Seconds {
		for _, s := range ranks {
			out[i] = max(out[i], s)
		}
	}
	return out
}

// Stage is the part of a run in which a block was measured.
type Stage string

// These are the stages of a search, in order. A search need not have all of them.
const (
	StageAA       Stage = "aa"       // the default config twice in each round
	StageRequired Stage = "required" // only the configs that every search measures
	StageScreen   Stage = "screen"   // many configs in a few rounds each
	StageHalving1 Stage = "halving1" // the best of StageScreen in more rounds
	StageHalving2 Stage = "halving2" // the best of StageHalving1 in more rounds
	StageModel    Stage = "model"    // configs that a model expects to be fast
	StageFinals   Stage = "finals"   // the best configs in new rounds; the fastest becomes the challenger
	StageRetry    Stage = "retry"    // failed configs again, together with the finalists
	StageRecheck  Stage = "recheck"  // checks outputs again, after the timing
	StageConfirm  Stage = "confirm"  // the challenger and the default config in new rounds
	StageSession  Stage = "session"  // winner and default config in a further session
	StageCross    Stage = "cross"    // the winners of other routings
	StageRefine   Stage = "refine"   // winners at further token counts; never in the log
)

// A command that does not search has one of these stages.
const (
	StageBench  Stage = "bench"  // one config and the default config
	StageAB     Stage = "ab"     // two configs in the same rounds
	StageTurns  Stage = "turns"  // configs of several libraries in turn
	StageVerify Stage = "verify" // a row of a tuned table, measured again
	StageImport Stage = "import" // times that another tool measured
)
