// Package kernels defines the interfaces between the tuner and the code that moves tokens. A
// Kernel declares its parameters and which configs are legal. A Backend opens a Session for
// one workload. A Session prepares, verifies and times candidates.
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
	Compile Binding = "compile" // a new value needs a new device binary
	Setup   Binding = "session" // a new value needs new buffers
	Launch  Binding = "launch"  // a new value costs nothing
)

// Class says what a parameter changes.
type Class string

const (
	Speed     Class = "speed"     // time only
	Precision Class = "precision" // time and rounding: stays at its default unless the caller accepts ep.Reduced
	Hook      Class = "hook"      // the result, such as an epilogue: the caller sets it, and no search varies it
)

// Cost names the field of ep.Cost that a parameter's value sets.
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
	Values  []ep.Value `json:"values"`  // values that a sweep tries unless the user gives other values
	Default ep.Value   `json:"default"` // usually one of Values
	Binding Binding    `json:"binding"`
	Class   Class      `json:"class"`
	Cost    Cost       `json:"cost"`

	// Before is the value that a config of an earlier build gets if that build did not have this parameter.
	// It is "" if every build had the parameter.
	Before ep.Value `json:"before,omitempty"`

	// Design is true if configs with different values must be searched like configs of different kernels.
	// A search then samples each value, and predicts times from configs with the same value.
	Design bool `json:"design,omitempty"`

	// Outside is for parameters of class Hook. It maps a value to the part of the kernel's
	// work that this value leaves to the caller. The part is a word of ep.Parts.
	Outside map[ep.Value]string `json:"outside,omitempty"`
}

// Kernel is one way to carry out an operation.
type Kernel struct {
	Name   string
	Op     ep.Op
	Doc    string
	Params []Param
	// Revision is a number for the meaning of the parameters; 0 means 1. Raise it by hand if a config measured with
	// an earlier build would now do something else, and for no other reason. Rows of tables stay
	// valid for a faster build of the same revision.
	Revision int
	// Formerly lists, by name, kernels that have become configs of this one.
	Formerly map[string]Former
	Work     ep.Work // the library that the kernel is from, and the work that its time includes
	// Layouts lists the layouts of received rows that the kernel serves; nil is expert.
	Layouts []ep.Layout
	// Check returns why a config cannot run on a machine, nil if it can. The error names
	// parameter and bound. Check is a pure function and needs no GPU.
	Check func(ep.Machine, ep.Problem, ep.Config) error
	// CheckPair returns why this combine cannot follow a dispatch, for example because the
	// combine reads memory that the dispatch does not write. If CheckPair is nil, the combine
	// can follow any dispatch.
	CheckPair func(dispatch, combine ep.Config) error
	// Default chooses the config of a caller without a table. Nil means each
	// parameter's own default.
	Default func(ep.Machine, ep.Problem) ep.Config
	// Starts returns the configs that every search measures besides the default, however short its budget:
	// one of each design that may win by far. Nil means none.
	Starts func(ep.Machine, ep.Problem) []ep.Config
	// Overlapped changes the config of a pair's dispatch or combine so that its launch may overlap
	// the launch of the pair's other kernel. Every search of pairs also measures the best dispatch
	// and combine changed in this way. Nil means that no launch may overlap.
	Overlapped func(ep.Config) ep.Config
	// Split returns the default among the kernel's configs with split phases (mode=split). They send in one
	// launch and receive in another, so that other work can run between the two. Without a matrix product
	// beside the calls, a search measures such configs only if the user gives the mode, because a fused
	// call does less work. Nil means that the kernel has no split phases.
	Split func(ep.Machine, ep.Problem) ep.Config
}

// ModeParam is the parameter that chooses between one launch and split phases. Its values are ModeFused
// and ModeSplit.
const (
	ModeParam = "mode"
	ModeFused = "fused"
	ModeSplit = "split"
)

// Splits reports whether c is a config of k with split phases.
func (k Kernel) Splits(c ep.Config) bool { return k.Split != nil && c.Str(ModeParam) == ModeSplit }

// SplitWithin returns the default with split phases on at most `sms` SMs (0 is no bound), as
// DefaultWithin does for the kernel's default. k.Split must not be nil.
func (k Kernel) SplitWithin(m ep.Machine, p ep.Problem, sms int) ep.Config {
	k.Default = k.Split
	return k.DefaultWithin(m, p, sms)
}

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

// DefaultConfig returns the config of a caller without a table.
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

// DefaultWithin returns the default on a machine with at most `sms` SMs (0 is no bound). A parameter that
// still exceeds the bound gets its largest value within the bound.
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

// StartsWithin returns the default and the declared starts on at most `sms` SMs (0 is no bound).
func (k Kernel) StartsWithin(m ep.Machine, p ep.Problem, sms int) []ep.Config {
	out := []ep.Config{k.DefaultWithin(m, p, sms)}
	if k.Starts == nil {
		return out
	}
	if sms > 0 {
		m.SMs = min(m.SMs, sms)
	}
	return append(out, k.Starts(m, p)...)
}

// within returns the largest declared value up to a bound, or the bound itself if all values
// are larger.
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

// CostOf returns the cost of a config: each field is the largest value of the parameters that
// set it. A value that is no number counts as 0.
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

// Changes returns the first parameter of a class whose value in c is not its default in dflt, or "".
func (k Kernel) Changes(of Class, dflt, c ep.Config) string {
	for _, q := range k.Params {
		if q.Class == of && c.Values[q.Name] != dflt.Values[q.Name] {
			return q.Name
		}
	}
	return ""
}

// Backend runs kernels. One goroutine at a time may use it.
type Backend interface {
	// Machine identifies the hardware. Every result records it.
	Machine() ep.Machine
	// Kernels lists the kernels to sweep. For each op, gains are measured against the default of the first
	// kernel in the list that serves the layout.
	Kernels() []Kernel
	// Open allocates buffers for one workload. An error means that the workload cannot run
	// here.
	Open(context.Context, *workloads.Workload) (Session, error)
	// Close releases all resources.
	Close() error
}

// Session runs candidates over one workload. One goroutine at a time may use it. After a
// *Failure, which concerns only the candidate, the session can still be used; after any
// other error the session is lost.
type Session interface {
	// Prepare compiles, allocates and loads a candidate on every rank. Many candidates may be
	// ready at once; preparing one again is free. All slow work, and all work that could
	// block another rank, happens here and not in Run.
	Prepare(context.Context, ep.Config) error
	// Run performs spec.Rounds collective rounds of a prepared candidate. It queues the work of all
	// ranks before it waits for any rank. All ranks start a round at the same time.
	Run(context.Context, ep.Config, RunSpec) (Rounds, error)
	// Verify runs a prepared candidate once from poisoned buffers and compares every output
	// with the oracle. It runs a dispatch before a combine.
	Verify(context.Context, ep.Config) (Comparison, error)
	// Close frees the session's memory.
	Close() error
}

// RunSpec asks for measured rounds.
type RunSpec struct {
	Rounds int // collective rounds to report
	Fold   int // calls averaged in one round, at least 1; with more calls a short call becomes measurable
}

// AsyncVerifier is implemented by sessions that can compare outputs while they run the next
// candidate.
type AsyncVerifier interface {
	// StartVerify runs a prepared candidate as Verify does and returns a function that
	// compares its outputs. Any goroutine may call this function (finish) while the session
	// runs other candidates.
	StartVerify(context.Context, ep.Config) (finish func() Comparison, err error)
}

// StartVerify calls the session's StartVerify, or Verify if it has none.
func StartVerify(ctx context.Context, s Session, c ep.Config) (finish func() Comparison, err error) {
	if d, ok := s.(AsyncVerifier); ok {
		return d.StartVerify(ctx, c)
	}
	v, err := s.Verify(ctx, c)
	return func() Comparison { return v }, err
}

// Turn is one prepared candidate's part of an interleaved round: Fold calls in a row. The JSON names are
// those of the worker protocol.
type Turn struct {
	Config ep.Config `json:"config"`
	Fold   int       `json:"fold"`
}

// TurnRunner is implemented by sessions for which many turns at once cost less than many Runs, such as
// sessions in another process.
type TurnRunner interface {
	// RunTurns runs turns in order and returns their rounds. If turn i fails,
	// RunTurns returns the rounds of the i turns before it and that turn's error. It may also stop
	// early without an error, but not before the first turn is done.
	RunTurns(context.Context, []Turn) ([]Rounds, error)
}

// RunTurns calls the session's RunTurns, or Run for each turn if it has none.
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

// Rounds holds what Run measured. The JSON names are those of the worker protocol.
type Rounds struct {
	Clock   string      `json:"clock"`           // how the seconds were measured: chain, span, span:STAGE, event or wall
	Fold    int         `json:"fold"`            // calls averaged in each round
	Seconds [][]float64 `json:"seconds"`         // [round][rank], of one call
	MHz     []float64   `json:"mhz,omitempty"`   // SM clock of each rank at about the last round, nil if unknown
	Notes   []string    `json:"notes,omitempty"` // throttling and the like

	// Beside holds the times with a matrix product running at the same time, if the problem
	// names a product. Seconds is then computed from Beside by the problem's objective.
	Beside *ep.BesideRounds `json:"beside,omitempty"`

	// Stages holds the seconds of each stage of a layer, in order, on the slowest rank. A worker
	// that can split the time of a layer measures them once for each config of a session.
	Stages []ep.StageTime `json:"stages,omitempty"`

	Took ep.RunTime `json:"took,omitzero"`
}

// Comparison is the result of comparing outputs with the oracle. The JSON names are those of the worker
// protocol.
type Comparison struct {
	Rows   int     `json:"rows"`             // rows compared
	Wrong  int     `json:"wrong"`            // rows outside tolerance
	MaxErr float64 `json:"max_err"`          // largest error, relative to its row's largest magnitude
	Detail string  `json:"detail,omitempty"` // the first difference: rank, row, column, want, got

	Took ep.CheckTime `json:"took,omitzero"`
}

// OK reports whether no row was wrong. It is also true if no row was compared.
func (c Comparison) OK() bool { return c.Wrong == 0 }
