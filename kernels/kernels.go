// Package kernels is the seam between the tuner and whatever moves tokens. A
// Kernel declares its parameters and which configs are legal. A Backend opens a
// Session for one workload. A Session prepares, verifies and times candidates.
package kernels

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Binding says when a parameter can still be changed.
type Binding string

const (
	Compile Binding = "compile" // a new value is a new device binary
	Setup   Binding = "session" // a new value needs new buffers
	Launch  Binding = "launch"  // a new value costs nothing
)

// Class says what a parameter changes.
type Class string

const (
	Speed     Class = "speed"     // time only
	Precision Class = "precision" // rounds what travels: left at its default unless the caller accepts ep.Reduced
	Hook      Class = "hook"      // what the caller wants done, such as an epilogue: verified, never swept
)

// Cost says which field of ep.Cost a parameter's value counts in.
type Cost int

const (
	NoCost     Cost = iota
	SMCost          // ep.Cost.SMs
	ThreadCost      // ep.Cost.Threads
	BufferCost      // ep.Cost.Bytes
)

// Param is one launch parameter of a kernel.
type Param struct {
	Name    string     `json:"name"`
	Doc     string     `json:"doc"`
	Unit    string     `json:"unit"`    // SMs, threads, bytes, tokens or empty
	Values  []ep.Value `json:"values"`  // swept unless the user gives others
	Default ep.Value   `json:"default"` // one of Values, or legal beside them
	Binding Binding    `json:"binding"`
	Class   Class      `json:"class"`
	Cost    Cost       `json:"cost"`

	// Outside says which part of the kernel's work a value of class Hook leaves to the
	// caller: a word of ep.Parts.
	Outside map[ep.Value]string `json:"outside,omitempty"`
}

// Kernel is one way to carry out an operation.
type Kernel struct {
	Name   string
	Op     ep.Op
	Doc    string
	Params []Param
	Work   ep.Work // whose kernel it is, and what its time holds
	// Layouts are those of received rows that the kernel serves; nil is expert.
	Layouts []ep.Layout
	// Check reports why a config cannot run on a machine; the error names
	// parameter and bound. It is pure: it needs no GPU and no session.
	Check func(ep.Machine, ep.Problem, ep.Config) error
	// Pairs reports why this combine cannot follow a dispatch, because that does
	// not leave what the combine reads. With nil it can follow any.
	Pairs func(dispatch, combine ep.Config) error
	// Default chooses the config of a caller without a table. Nil means each
	// parameter's own default.
	Default func(ep.Machine, ep.Problem) ep.Config
	// Starts lists configs that every search measures besides the default,
	// however short its time: one of each design that may win by far. Nil means
	// none.
	Starts func(ep.Machine, ep.Problem) []ep.Config
	// Overlapped changes a config for a pair, where its launch may overlap the other
	// half's. Every search of pairs measures the best halves changed so, too.
	// Nil changes nothing.
	Overlapped func(ep.Config) ep.Config
	// SplitPhases says that it exists to send and to receive apart. A search of calls alone
	// leaves it out unless it is named: there it does more work than its fused twin.
	SplitPhases bool
}

// expertOnly are the layouts of a kernel that declares none.
var expertOnly = []ep.Layout{ep.LayoutExpert}

// Serves reports whether the kernel serves a layout.
func (k Kernel) Serves(l ep.Layout) bool { return slices.Contains(k.served(), l) }

func (k Kernel) served() []ep.Layout {
	if k.Layouts == nil {
		return expertOnly
	}
	return k.Layouts
}

// CheckLayout refuses a layout that the kernel does not serve.
func (k Kernel) CheckLayout(l ep.Layout) error {
	if k.Serves(l) {
		return nil
	}
	return fmt.Errorf("layout: %s does not serve %s; it serves %s", k.Name, l, join(k.served(), ep.Layout.String))
}

// DefaultConfig is the config of a caller without a table.
func (k Kernel) DefaultConfig(m ep.Machine, p ep.Problem) ep.Config {
	if k.Default != nil {
		return k.Default(m, p)
	}
	c := ep.Config{Kernel: k.Name, Values: map[string]ep.Value{}}
	for _, q := range k.Params {
		c.Values[q.Name] = q.Default
	}
	return c
}

// DefaultWithin is the default where a config may take at most so many SMs: what the
// kernel chooses for a machine with that many. Where that is still too many, the
// parameter gets its largest value within the bound. A bound of 0 is none.
func (k Kernel) DefaultWithin(m ep.Machine, p ep.Problem, sms int) ep.Config {
	if sms == 0 {
		return k.DefaultConfig(m, p)
	}
	m.SMs = min(m.SMs, sms)
	c := k.DefaultConfig(m, p)
	for _, q := range k.Params {
		if q.Cost == SMCost && c.Int(q.Name) > sms {
			c = c.With(q.Name, q.within(sms))
		}
	}
	return c
}

// within is the largest value of a parameter up to a bound, or the bound itself
// where all values are larger.
func (q Param) within(bound int) ep.Value {
	best := -1
	for _, v := range q.Values {
		if n, ok := v.Int(); ok && n <= bound {
			best = max(best, n)
		}
	}
	if best < 0 {
		best = bound
	}
	return ep.Value(strconv.Itoa(best))
}

// CostOf is what a config takes: in each field the largest value of the
// parameters that count in it. A value that is a word counts as 0.
func (k Kernel) CostOf(c ep.Config) ep.Cost {
	var out ep.Cost
	field := [...]*int{SMCost: &out.SMs, ThreadCost: &out.Threads, BufferCost: &out.Bytes}
	for _, q := range k.Params {
		if q.Cost > NoCost && int(q.Cost) < len(field) {
			*field[q.Cost] = max(*field[q.Cost], c.Int(q.Name))
		}
	}
	return out
}

// Changes names the first parameter of a class that c sets otherwise than the default
// config dflt, "" when there is none. One of class Precision rounds results, one of class
// Hook asks for other work.
func (k Kernel) Changes(of Class, dflt, c ep.Config) string {
	for _, q := range k.Params {
		if q.Class == of && c.Values[q.Name] != dflt.Values[q.Name] {
			return q.Name
		}
	}
	return ""
}

// Backend is something that can run kernels. It is safe for one goroutine.
type Backend interface {
	// Machine identifies the hardware; it is stamped on every result.
	Machine() ep.Machine
	// Kernels lists what can be swept. The first kernel of an op that serves a
	// layout carries the default that every gain is measured against.
	Kernels() []Kernel
	// Open lays out buffers for one workload. An error means that the workload
	// cannot run here.
	Open(context.Context, *workloads.Workload) (Session, error)
	// Close gives everything back.
	Close() error
}

// Session runs candidates over one workload. One goroutine may use it. An error
// that is a *Failure is the candidate's and leaves the session usable; after any
// other error the session is lost.
type Session interface {
	// Prepare compiles, allocates and loads a candidate on every rank. Many
	// candidates may be ready at once; preparing one twice is free. Everything
	// slow, and everything that could block another rank, happens here and not in Run.
	Prepare(context.Context, ep.Config) error
	// Run performs spec.Rounds collective rounds of a prepared candidate.
	// All ranks are queued before any is waited on, and start aligned.
	Run(context.Context, ep.Config, RunSpec) (Rounds, error)
	// Verify runs a prepared candidate once from poisoned buffers and
	// compares every output with the oracle. For combine it runs an untimed
	// dispatch first.
	Verify(context.Context, ep.Config) (Comparison, error)
	// Close frees the session's memory.
	Close() error
}

// RunSpec asks for measured rounds.
type RunSpec struct {
	Rounds int // collective rounds to report
	Fold   int // calls averaged in one round, at least 1, so that a round outlasts the clock
}

// AsyncVerifier is implemented by sessions of which this host does a part of a comparison.
type AsyncVerifier interface {
	// StartVerify is Verify without that part, which rest does. Any goroutine may call
	// rest, and the session may go on meanwhile.
	StartVerify(context.Context, ep.Config) (rest func() Comparison, err error)
}

// StartVerify is that of a session, or else all of Verify.
func StartVerify(ctx context.Context, s Session, c ep.Config) (rest func() Comparison, err error) {
	if d, ok := s.(AsyncVerifier); ok {
		return d.StartVerify(ctx, c)
	}
	v, err := s.Verify(ctx, c)
	return func() Comparison { return v }, err
}

// Turn is a prepared candidate's part of a round that goes through many: one round of so
// many calls. The tags are those of the worker protocol.
type Turn struct {
	Config ep.Config `json:"config"`
	Fold   int       `json:"fold"`
}

// TurnRunner is implemented by sessions that do many turns at less cost than Run does each,
// such as those in another process.
type TurnRunner interface {
	// RunTurns does turns one after the other, from the first on, and returns the
	// rounds of those that went well. An error is that of the turn behind them. Without
	// one there may still be turns left to do, but at least one was done.
	RunTurns(context.Context, []Turn) ([]Rounds, error)
}

// RunTurns is that of a session, or else Run for each turn.
func RunTurns(ctx context.Context, s Session, turns []Turn) (done []Rounds, err error) {
	if many, ok := s.(TurnRunner); ok {
		return many.RunTurns(ctx, turns)
	}
	for _, t := range turns {
		r, err := s.Run(ctx, t.Config, RunSpec{Rounds: 1, Fold: t.Fold})
		if err != nil {
			return done, err
		}
		done = append(done, r)
	}
	return done, nil
}

// Rounds is what Run measured. The tags are those of the worker protocol.
type Rounds struct {
	Clock   string      `json:"clock"`           // what the seconds mean: chain, span, span:STAGE, event or wall
	Fold    int         `json:"fold"`            // calls averaged in each round
	Seconds [][]float64 `json:"seconds"`         // [round][rank], of one call
	MHz     []float64   `json:"mhz,omitempty"`   // SM clock of each rank about the time of the last round, nil if unknown
	Notes   []string    `json:"notes,omitempty"` // throttling and the like

	// Beside is what was measured where the problem names a product beside the
	// calls. Seconds are then Beside.Seconds of the problem's objective.
	Beside *ep.BesideRounds `json:"beside,omitempty"`

	Took ep.RunTime `json:"took,omitzero"`
}

// Comparison is what a comparison with the oracle found. The tags are those of
// the worker protocol.
type Comparison struct {
	Rows   int     `json:"rows"`             // rows compared
	Wrong  int     `json:"wrong"`            // rows outside tolerance
	MaxErr float64 `json:"max_err"`          // largest error, relative to its row's largest magnitude
	Detail string  `json:"detail,omitempty"` // the first difference: rank, row, column, want, got

	Took ep.CheckTime `json:"took,omitzero"`
}

// OK reports whether no row was wrong. It is true of no rows at all.
func (c Comparison) OK() bool { return c.Wrong == 0 }

// Clocker is implemented by backends that can time an empty kernel. Every run
// stores the reading.
type Clocker interface {
	// Empty returns the seconds that each clock reads for a kernel that
	// does nothing.
	Empty(context.Context) (map[string]float64, error)
}

// Versioned is implemented by backends whose kernels can change while their tables
// stay.
type Versioned interface{ ABI() ep.ABI }

// Restarting is implemented by backends whose kernels run in a worker that is started again
// when it is lost.
type Restarting interface {
	// Losses say how the worker was lost where no candidate was to blame. What a
	// candidate caused is the Failure of that candidate.
	Losses() []string
}

// Precompiler is implemented by backends that compile, since what they compile early
// and side by side need not be waited for.
type Precompiler interface {
	// Precompile announces configs that Prepare will soon be asked for. It returns at
	// once; errors are left for Prepare to return.
	Precompile(ep.Problem, []ep.Config)
}

// ProductRunner is implemented by backends that run products beside calls.
type ProductRunner interface {
	// Beside lists the kinds of ep.Product that they run.
	Products() []string
}

// Condition is one that every legal config of a kernel meets, spelled for a program that
// has no code of it: see the rules of docs/worker-protocol.md.
type Condition struct{ Expr, Reason string }

// Conditioned is implemented by backends that serve programs which do not know their
// kernels.
type Conditioned interface {
	// Conditions are those of the kernel with that name.
	Conditions(kernel string) []Condition
}

// Explainer is implemented by sessions that can tell what of a call slows a product
// down.
type Explainer interface {
	// Explain measures the product of the session's problem beside a prepared
	// candidate, and beside loads that take from it what the candidate takes, one
	// thing at a time.
	Explain(ctx context.Context, c ep.Config, rounds int) ([]Effect, error)
}

// Effect is the product beside one thing: seconds of the slowest rank, by round.
type Effect struct {
	Beside string    `json:"beside"` // what ran beside it, in words
	Alone  []float64 `json:"alone"`
	With   []float64 `json:"with"`
}

// Digester is implemented by sessions that can show whether runs repeat bit by
// bit.
type Digester interface {
	// Digest runs a prepared combine or pair once from poisoned buffers and
	// hashes the combined tokens of all ranks.
	Digest(context.Context, ep.Config) (string, error)
}
