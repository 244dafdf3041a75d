// Package worker runs a kernels.Backend in another process, the worker. docs/worker-protocol.md describes the
// messages. If a candidate makes the worker hang, crash or break the protocol, epbench does not run this candidate
// again.
package worker

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Protocol is the version that both sides must speak.
const Protocol = 2

const (
	methodHello    = "hello"
	methodOpen     = "open"
	methodPrepare  = "prepare"
	methodRun      = "run"
	methodTurns    = "turns"
	methodVerify   = "verify"
	methodEmpty    = "empty"
	methodExplain  = "explain"
	methodClose    = "close"
	methodShutdown = "shutdown"
	notifyBeat     = "heartbeat"
	notifyFailed   = "failed"
	notifyAhead    = "ahead" // configs to compile early, if Welcome.Ahead
)

// codeFailure is the error code of a candidate's failure. After any other error the session is lost.
const codeFailure = -32001

// Hello is the first request.
type Hello struct {
	Protocol int    `json:"protocol"`
	Client   string `json:"client"`
}

// Welcome answers Hello.
type Welcome struct {
	Protocol int          `json:"protocol"`
	Worker   string       `json:"worker"` // name and version
	ABI      ep.ABI       `json:"abi"`    // hashes of the kernels' sources
	Machine  ep.Machine   `json:"machine"`
	Kernels  []KernelDecl `json:"kernels"`
	Ahead    bool         `json:"ahead,omitempty"`    // wants the notification "ahead"
	Turns    bool         `json:"turns,omitempty"`    // knows the request "turns"
	Sessions bool         `json:"sessions,omitempty"` // can open several sessions at once
	Beside   []string     `json:"beside,omitempty"`   // kinds of ep.Product
}

// KernelDecl declares a worker's kernel.
type KernelDecl struct {
	Name    string          `json:"name"`
	Op      ep.Op           `json:"op"`
	Doc     string          `json:"doc"`
	Params  []kernels.Param `json:"params"`
	Work    ep.Work         `json:"work,omitzero"`
	Layouts []ep.Layout     `json:"layouts,omitempty"` // if missing, only the layout `expert`
	Rules   []Rule          `json:"rules,omitempty"`
	Accepts []string        `json:"accepts,omitempty"` // dispatches that may precede this combine; if missing, all
}

// Rule is a condition on configs in the expr language (expr-lang.org). The variables are the kernel's parameters,
// problem.* and machine.*, under their JSON names.
type Rule struct {
	Expr   string `json:"expr"`
	Reason string `json:"reason"` // shown if Expr is false
}

// OpenParams starts a session on one workload.
type OpenParams struct {
	Problem ep.Problem    `json:"problem"`
	Routing string        `json:"routing"` // only a label
	Seed    uint64        `json:"seed"`    // see workloads.Workload.Token
	Ranks   []RankRouting `json:"ranks"`
	// Default is set if a matrix product runs beside the calls. The product must last longer than a call of Default.
	Default *ep.Config `json:"default,omitempty"`
}

// RankRouting is the routing of one rank. JSON has each array as base64 of little-endian values, k values for each
// token.
type RankRouting struct {
	Tokens  int    `json:"tokens"`
	Experts []byte `json:"experts"` // int32, -1 if masked
	Weights []byte `json:"weights"` // float32
}

// SessionID names an open session.
type SessionID struct {
	Session int `json:"session"`
}

// Candidate names a config in a session.
type Candidate struct {
	Session int       `json:"session"`
	Config  ep.Config `json:"config"`
}

// AheadParams lists configs that will be prepared soon.
type AheadParams struct {
	Problem ep.Problem  `json:"problem"`
	Configs []ep.Config `json:"configs"`
}

// RunParams asks for rounds of a prepared candidate.
type RunParams struct {
	Candidate
	Rounds int `json:"rounds"`
	Fold   int `json:"fold"`
}

// TurnsParams asks for one round of each candidate, in order.
type TurnsParams struct {
	Session int            `json:"session"`
	Turns   []kernels.Turn `json:"turns"`
}

// TurnsReply holds the rounds of all turns before the first turn that failed.
type TurnsReply struct {
	Rounds []kernels.Rounds `json:"rounds"`
	Failed *TurnFailure     `json:"failed,omitempty"` // failure of the turn after these rounds
}

// TurnFailure says why a turn failed.
type TurnFailure struct {
	Status ep.Status `json:"status"`
	Reason string    `json:"reason"`
}

// VerifyParams asks the worker to compare all outputs, and to return some rows that epbench compares too.
type VerifyParams struct {
	Candidate
	Probes []Probe `json:"probes,omitempty"`
	// RowsFile is the name of an empty file. The worker may write the probed rows to this file and leave
	// VerifyReply.Probed empty.
	RowsFile string `json:"rows_file,omitempty"`
}

// Probe names an output row of a token. K is -1 for a combined row. Otherwise the row is the one that dispatch sent to
// the expert at top-k position K.
type Probe struct {
	Rank  int `json:"rank"`
	Token int `json:"token"`
	K     int `json:"k"`
}

// VerifyReply holds the worker's own comparison and the probed rows.
type VerifyReply struct {
	kernels.Comparison
	Probed []ProbeRow `json:"probed,omitempty"` // in order; missing if in RowsFile
}

// ProbeRow is a row of `hidden` dequantized values, little-endian BF16, in JSON base64.
type ProbeRow struct {
	Data []byte `json:"data"`
}

// ExplainParams asks why a prepared candidate slows down the matrix product.
type ExplainParams struct {
	Candidate
	Rounds int `json:"rounds"`
}

// ExplainReply holds the matrix product's times beside the candidate, and beside several loads. Each load occupies one
// resource of the GPU, such as memory bandwidth.
type ExplainReply struct {
	Effects []kernels.Effect `json:"effects"`
}

// EmptyReply holds the seconds of an empty kernel, as each clock measures them.
type EmptyReply struct {
	Clocks map[string]float64 `json:"clocks"`
}

// Beat is the heartbeat, sent at least every second during a request.
type Beat struct {
	Doing   string `json:"doing"`             // compile, load, run, verify, ...
	Ranks   []int  `json:"ranks,omitempty"`   // rounds that each rank has finished
	Waiting bool   `json:"waiting,omitempty"` // a launched rank waits for the others
}

type failureData struct {
	Status ep.Status `json:"status"`
}
