// Package record writes and reads the files of a run. A run is one execution of a command that measures, such as epbench
// sweep.
//
// A run has a directory with two files, from which all other files can be made. The file run.json holds a [Run]: what the
// user asked for, the machine, and which config won each search. A config is a kernel with its launch parameters. The
// file trials.jsonl is the log of the measurements: each line holds a [Result].
//
// A backend measures in blocks. A block is a number of rounds, and in each round every config of the block runs once. A
// line of the log holds the times of one config in one block. If a run is killed, only the block that was being measured
// is lost, and the run can be resumed. Blocks belong to sessions: in a session, memory is laid out once. Each rank is one
// GPU.
package record

import (
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Schema is the version of run.json and trials.jsonl.
const Schema = 2

const oldSchema = "schema %d, this version reads %d: an epbench from before v0.1.0 wrote it; sweep again into another directory"

// Result is one line of trials.jsonl: the times of one config in one block of rounds, or the reason why it has no times.
type Result struct {
	Schema      int              `json:"schema"`
	Seq         int              `json:"seq"`  // number of the line, from 0
	Time        time.Time        `json:"time"` // when the block ended, UTC
	Problem     ep.Problem       `json:"problem"`
	Routing     string           `json:"routing"` // which experts the tokens select, such as zipf:1.0
	Seed        uint64           `json:"seed"`    // seed of the random routing
	Config      ep.Config        `json:"config"`
	Cost        ep.Cost          `json:"cost"` // SMs, threads and bytes that Config takes
	Role        Role             `json:"role"`
	Stage       Stage            `json:"stage"`
	Block       int              `json:"block"`             // number of the block within the stage
	Session     int              `json:"session,omitempty"` // number of the session within the search, from 1; 0 in logs of older programs
	Status      ep.Status        `json:"status"`
	Reason      string           `json:"reason,omitempty"`       // why Status is not ok
	Clock       string           `json:"clock,omitempty"`        // how the times were measured
	Fold        int              `json:"fold,omitempty"`         // each entry of Seconds is the mean of this many calls
	Seconds     [][]float64      `json:"seconds,omitempty"`      // [round][rank] seconds of one call
	Beside      *ep.BesideRounds `json:"beside,omitempty"`       // nil if no matrix product ran at the same time as the calls
	Round0      int              `json:"round0"`                 // number of the first round in Seconds; a round has the same number in the results of all its configs
	MHz         []float64        `json:"mhz,omitempty"`          // SM clock of each rank
	LayerStages []ep.StageTime   `json:"layer_stages,omitempty"` // for op layer, the time of each stage; absent for other ops, or if not measured
	MaxErr      float64          `json:"max_err"`                // largest error found by the check of the outputs, see kernels.Comparison
	Checked     int              `json:"checked"`                // number of output rows that were checked
	Wall        float64          `json:"wall"`                   // seconds that the whole block took, the same in all lines of the block
	End         bool             `json:"end,omitempty"`          // true in the last line of a block; OpenDir ignores the lines of a block without such a line
	Warnings    []string         `json:"warnings,omitempty"`
}

// Role says why a config was measured.
type Role string

const (
	Candidate Role = "candidate" // the search chose it
	Default   Role = "default"   // the config that users launch without a tuned table; it is in every round
	Incumbent Role = "incumbent" // the tuned table that the user has now contains it
	Analytic  Role = "analytic"  // a formula chose it, without measured times
	Twin      Role = "twin"      // the default config once more; its times show how much equal configs differ (the A/A test)
	Peer      Role = "peer"      // a config of another library
)

// SessionID returns the number of the session in which r was measured. It matters because times of one config differ from
// session to session. Logs of older programs do not number sessions. In such a log, each block of the stage StageSession
// counts as one session, and all other blocks together count as one more session.
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

// A search goes through these stages, in this order. It need not have all of them.
const (
	StageAA       Stage = "aa"       // measures the default config twice in each round, to see how much equal configs differ
	StageRequired Stage = "required" // measures only the configs that every search measures; there is no further stage before the finals if the host limits the time, or if an earlier search had the same combine
	StageScreen   Stage = "screen"   // measures many configs in a few rounds each
	StageHalving1 Stage = "halving1" // measures the best configs of StageScreen in more rounds
	StageHalving2 Stage = "halving2" // measures the best configs of StageHalving1 in more rounds
	StageModel    Stage = "model"    // measures configs that a model, fitted to the times so far, expects to be fast
	StageFinals   Stage = "finals"   // measures the best configs in new rounds; the fastest of them is called the challenger
	StageRetry    Stage = "retry"    // measures failed configs once more, in the rounds of the finals
	StageRecheck  Stage = "recheck"  // checks outputs again, after the configs were timed
	StageConfirm  Stage = "confirm"  // measures the challenger and the default config in new rounds, to decide which one wins
	StageSession  Stage = "session"  // measures the winner and the default config again, after memory was laid out anew
	StageCross    Stage = "cross"    // measures the winners of other routings, to see what each loses on this routing
	StageRefine   Stage = "refine"   // measures winners at token counts between the requested ones; only progress messages have this stage, the log has cross
)

// A command that does not search has one of these stages.
const (
	StageBench  Stage = "bench"  // one config and the default config
	StageAB     Stage = "ab"     // two configs in the same rounds
	StageTurns  Stage = "turns"  // configs of several libraries, one after the other
	StageVerify Stage = "verify" // a row of a tuned table, measured again
	StageImport Stage = "import" // times that another tool measured
)
