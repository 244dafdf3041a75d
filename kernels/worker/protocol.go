// Package worker runs a kernels.Backend in another process. The process
// speaks JSON-RPC 2.0, one message a line, over its standard input and output;
// docs/worker-protocol.md is the protocol for people who write workers in
// other languages. A worker may hang, crash or answer nonsense: the client
// turns each into a Failure of the candidate in flight, starts a new process
// and never runs that candidate again.
package worker

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Protocol is the version both sides must speak.
const Protocol = 1

// Methods of the worker.
const (
	methodHello    = "hello"
	methodOpen     = "open"
	methodPrepare  = "prepare"
	methodRun      = "run"
	methodVerify   = "verify"
	methodEmpty    = "empty"
	methodClose    = "close"
	methodShutdown = "shutdown"
	// notifyBeat is the only message a worker sends unasked.
	notifyBeat = "heartbeat"
	// notifyAhead tells workers that welcomed with Ahead what to compile.
	notifyAhead = "ahead"
)

// codeFailure is the JSON-RPC error code of a verdict on a candidate; its
// data is a failureData. Any other code means the worker itself is in trouble.
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
	ABI      string       `json:"abi"`    // hash of what the kernels are built from
	Machine  ep.Machine   `json:"machine"`
	Kernels  []KernelDecl `json:"kernels"`
	Ahead    bool         `json:"ahead,omitempty"` // the notification ahead is of use to this worker
}

// KernelDecl declares a kernel. Rules carry its legality; a worker may still
// answer prepare with the failure "illegal".
type KernelDecl struct {
	Name    string          `json:"name"`
	Op      ep.Op           `json:"op"`
	Doc     string          `json:"doc"`
	Params  []kernels.Param `json:"params"`
	Rules   []Rule          `json:"rules,omitempty"`
	Accepts []string        `json:"accepts,omitempty"` // combine only: dispatch kernels it can follow, empty for any
}

// Rule is a condition every legal config meets: a boolean expression of the
// expr language (expr-lang.org) over the kernel's parameters by name, over
// problem.* and over machine.*, whose fields carry their JSON names.
type Rule struct {
	Expr   string `json:"expr"`
	Reason string `json:"reason"` // said when the expression is false
}

// OpenParams starts a session on one workload.
type OpenParams struct {
	Problem ep.Problem    `json:"problem"`
	Routing string        `json:"routing"` // spec, for labels only
	Seed    uint64        `json:"seed"`    // of the payload, see workloads.Workload.Token
	Ranks   []RankRouting `json:"ranks"`
}

// RankRouting is the routing of one rank. Both arrays are base64 of
// little-endian values in the order [token, k].
type RankRouting struct {
	Tokens  int    `json:"tokens"`
	Experts []byte `json:"experts"` // int32, -1 where masked
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

// AheadParams says which configs of a problem will be prepared soon, so that
// a worker that compiles can begin. Nothing is answered.
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

// RunReply is kernels.Rounds on the wire.
type RunReply struct {
	Clock   string      `json:"clock"`
	Fold    int         `json:"fold"`
	Seconds [][]float64 `json:"seconds"` // [round][rank], of one call
	MHz     []float64   `json:"mhz,omitempty"`
	Notes   []string    `json:"notes,omitempty"`
}

// VerifyParams asks for a check against the oracle and for the output rows
// the client wants to see itself.
type VerifyParams struct {
	Candidate
	Probes []Probe `json:"probes,omitempty"`
}

// Probe names one output row that the client checks with its own oracle, so
// that a worker cannot merely claim to be right. For op combine and pair it is
// the combined row of a token on its own rank; for op dispatch it is what the
// expert at position K of the token's top-k received.
type Probe struct {
	Rank  int `json:"rank"`
	Token int `json:"token"`
	K     int `json:"k"`
}

// VerifyReply is kernels.Comparison on the wire, and the probed rows.
type VerifyReply struct {
	Rows   int        `json:"rows"`
	Wrong  int        `json:"wrong"`
	MaxErr float64    `json:"max_err"`
	Detail string     `json:"detail,omitempty"`
	Probed []ProbeRow `json:"probed,omitempty"` // in the order of the probes
}

// ProbeRow is the row of one probe: base64 of hidden little-endian BF16
// values, for quantized formats the dequantized ones.
type ProbeRow struct {
	Data []byte `json:"data"`
}

// EmptyReply is what each clock reads for a kernel that does nothing, seconds.
type EmptyReply struct {
	Clocks map[string]float64 `json:"clocks"`
}

// Beat is the heartbeat: sent at least every second while a request is being
// worked on, with how far each rank has come in it.
type Beat struct {
	Doing string `json:"doing"`           // compile, load, run, verify, ...
	Ranks []int  `json:"ranks,omitempty"` // rounds each rank has finished
}

type failureData struct {
	Status ep.Status `json:"status"`
}
