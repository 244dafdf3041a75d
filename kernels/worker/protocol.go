// Package worker runs a kernels.Backend in another process, the worker. Client and worker exchange
// JSON-RPC 2.0 messages, one in each line, over the worker's standard input and output;
// docs/worker-protocol.md describes the protocol. If a worker hangs, crashes or breaks the protocol,
// the client reports a Failure of the candidate that ran, starts a new process, and does not run that
// candidate again. A worker may also be a launched command with a process for each rank. These
// processes connect over TCP, and rank 0 speaks the same protocol.
package worker

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Protocol is the version that both sides must speak.
const Protocol = 2

// Methods of the worker.
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
	notifyBeat     = "heartbeat" // sent by the worker during a request
	notifyFailed   = "failed"    // sent by a launched rank that failed while others may wait for it
	notifyAhead    = "ahead"     // sent to a worker whose Welcome has Ahead: configs to compile early
)

// codeFailure is the JSON-RPC error code of a candidate's failure. The data of such an error is a
// failureData. Any other code means that the session is lost.
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
	Ahead    bool         `json:"ahead,omitempty"`    // whether the worker wants the notification "ahead"
	Turns    bool         `json:"turns,omitempty"`    // whether the worker knows the request "turns"
	Sessions bool         `json:"sessions,omitempty"` // several sessions can be open at once, each in memory of its own
	Beside   []string     `json:"beside,omitempty"`   // kinds of ep.Product that the worker can run at the same time as calls
}

// KernelDecl declares a kernel of a worker. A config is legal if it meets all rules. The worker may still
// answer the request prepare with the failure "illegal".
type KernelDecl struct {
	Name    string          `json:"name"`
	Op      ep.Op           `json:"op"`
	Doc     string          `json:"doc"`
	Params  []kernels.Param `json:"params"`
	Work    ep.Work         `json:"work,omitzero"`
	Layouts []ep.Layout     `json:"layouts,omitempty"` // layouts that the kernel supports; if missing, only expert
	Rules   []Rule          `json:"rules,omitempty"`
	Accepts []string        `json:"accepts,omitempty"` // only for a combine: dispatch kernels that it can follow; empty for any
}

// Rule is a condition that every legal config meets. It is a boolean expression in the expr language
// (expr-lang.org). Its variables are the kernel's parameters, problem.* and machine.*, under their
// JSON names.
type Rule struct {
	Expr   string `json:"expr"`
	Reason string `json:"reason"` // printed if the expression is false
}

// OpenParams starts a session on one workload.
type OpenParams struct {
	Problem ep.Problem    `json:"problem"`
	Routing string        `json:"routing"` // spelling of the routing, only for labels
	Seed    uint64        `json:"seed"`    // seed of the tokens' values, see workloads.Workload.Token
	Ranks   []RankRouting `json:"ranks"`
	Default *ep.Config    `json:"default,omitempty"` // with a matrix product: config whose calls decide how much of the product runs beside each call
}

// RankRouting is the routing of one rank. Both arrays hold little-endian values in the order [token, k];
// in JSON they are base64.
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

// AheadParams lists configs that will be prepared soon. A worker that compiles can begin with them. There
// is no answer.
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

// TurnsParams asks for one round of each of these prepared candidates, in this order.
type TurnsParams struct {
	Session int            `json:"session"`
	Turns   []kernels.Turn `json:"turns"`
}

// TurnsReply holds the rounds up to the first turn that failed.
type TurnsReply struct {
	Rounds []kernels.Rounds `json:"rounds"`
	Failed *TurnFailure     `json:"failed,omitempty"` // failure of the turn after the last of Rounds
}

// TurnFailure says why a turn failed.
type TurnFailure struct {
	Status ep.Status `json:"status"`
	Reason string    `json:"reason"`
}

// VerifyParams asks for a comparison with the worker's reference, and for output
// rows that the client compares itself.
type VerifyParams struct {
	Candidate
	Probes []Probe `json:"probes,omitempty"`
	// RowsFile is an empty file on the client's host. A worker that can open it may write the bytes
	// of the probed rows there, in the order of the probes, and leave VerifyReply.Probed empty.
	// Parsing the rows from JSON took longer than comparing them.
	RowsFile string `json:"rows_file,omitempty"`
}

// Probe names one output row that the client compares with its own oracle, so that it need not trust the
// worker's comparison. For op combine and pair it is the combined row of a token on the token's own
// rank. For op dispatch it is the row that the expert at position K of the token's top-k received.
type Probe struct {
	Rank  int `json:"rank"`
	Token int `json:"token"`
	K     int `json:"k"`
}

// VerifyReply holds the worker's own comparison and the probed rows.
type VerifyReply struct {
	kernels.Comparison
	Probed []ProbeRow `json:"probed,omitempty"` // in the order of the probes; missing if they are in RowsFile
}

// ProbeRow is the row of one probe: `hidden` dequantized values as little-endian BF16; in JSON it is
// base64.
type ProbeRow struct {
	Data []byte `json:"data"`
}

// ExplainParams asks why a prepared candidate slows down the matrix product that runs at the same time.
type ExplainParams struct {
	Candidate
	Rounds int `json:"rounds"`
}

// ExplainReply holds times of the product while the candidate runs, and while each of several loads runs.
type ExplainReply struct {
	Effects []kernels.Effect `json:"effects"`
}

// EmptyReply holds the seconds that each clock reads for a kernel that does nothing.
type EmptyReply struct {
	Clocks map[string]float64 `json:"clocks"`
}

// Beat is the heartbeat, sent at least every second during a request.
type Beat struct {
	Doing   string `json:"doing"`             // step in progress: compile, load, run, verify, ...
	Ranks   []int  `json:"ranks,omitempty"`   // number of rounds that each rank has finished
	Waiting bool   `json:"waiting,omitempty"` // whether a launched rank waits for the others
}

type failureData struct {
	Status ep.Status `json:"status"`
}
