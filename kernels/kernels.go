// Package kernels defines the interfaces between the tuner and the code that moves tokens.
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
	Compile Binding = "compile" // needs a new device binary
	Setup   Binding = "session" // needs new buffers
	Launch  Binding = "launch"  // costs nothing
)

// Class says what a parameter changes.
type Class string

const (
	Speed     Class = "speed"     // time only
	Precision Class = "precision" // time and rounding; varied only under ep.Reduced
	Hook      Class = "hook"      // the result; set by the caller, never searched
)

// Cost names the field of ep.Cost that a parameter's value sets.
type Cost int

const (
	NoCost Cost = iota
	SMCost
	ThreadCost
	BufferCost
)

// Param is one launch parameter of a kernel.
type Param struct {
	Name    string     `json:"name"`
	Doc     string     `json:"doc"`
	Unit    string     `json:"unit"`
	Values  []ep.Value `json:"values"`  // tried by a sweep unless the user gives others
	Default ep.Value   `json:"default"` // usually one of Values
	Binding Binding    `json:"binding"`
	Class   Class      `json:"class"`
	Cost    Cost       `json:"cost"`

	// Before is for configs of earlier builds that lack this parameter: the value that says what their kernels did.
	// "" if no build lacked it.
	Before ep.Value `json:"before,omitempty"`

	// Design is true if the values are different designs of the kernel. A search samples each value, and treats the
	// values like different kernels.
	Design bool `json:"design,omitempty"`

	// Outside is for a hook. With some of its values, the caller does a part of the work. Outside maps such a value
	// to the part's word in ep.Parts.
	Outside map[ep.Value]string `json:"outside,omitempty"`
}

// Kernel is one way to carry out an operation.
type Kernel struct {
	Name   string
	Op     ep.Op
	Doc    string
	Params []Param
	// Revision is a number for the meaning of the parameters; 0 means 1. Raise it by hand, and only if an old config
	// would now do something else. A change that only makes the kernel faster keeps the revision, and tables stay
	// valid.
	Revision int
	// Formerly lists, by name, kernels that have become configs of this one.
	Formerly map[string]Former
	Work     ep.Work
	// Layouts lists the layouts of received rows; nil is expert.
	Layouts []ep.Layout
	// Check returns why a config cannot run, nil if it can. It needs no GPU. Its error names parameter and bound.
	Check func(ep.Machine, ep.Problem, ep.Config) error
	// CheckPair returns why this combine cannot follow a dispatch; nil means that it can follow any.
	CheckPair func(dispatch, combine ep.Config) error
	// Default chooses the config of a caller without a table; nil means each parameter's own default.
	Default func(ep.Machine, ep.Problem) ep.Config
	// Starts returns configs that every search measures besides the default; nil means none.
	Starts func(ep.Machine, ep.Problem) []ep.Config
	// Overlapped changes a config of a pair so that its launch may overlap the other kernel's. Nil means that no
	// launch may.
	Overlapped func(ep.Config) ep.Config
	// Split returns the default config with mode=split, which sends and receives in two launches. Nil means that the
	// kernel has no such config.
	Split func(ep.Machine, ep.Problem) ep.Config
}

// ModeParam chooses between one launch (ModeFused) and two (ModeSplit).
const (
	ModeParam = "mode"
	ModeFused = "fused"
	ModeSplit = "split"
)

// Splits reports whether c is a config of k with split phases.
func (k Kernel) Splits(c ep.Config) bool { return k.Split != nil && c.Str(ModeParam) == ModeSplit }

// SplitWithin returns the default with split phases on at most `sms` SMs; 0 is no bound. k.Split must not be nil.
func (k Kernel) SplitWithin(m ep.Machine, p ep.Problem, sms int) ep.Config {
	k.Default = k.Split
	return k.DefaultWithin(m, p, sms)
}

var expertOnly = []ep.Layout{ep.LayoutExpert}

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

// DefaultWithin returns the default on at most `sms` SMs; 0 is no bound.
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

// StartsWithin returns the default and the starts on at most `sms` SMs; 0 is no bound.
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

// within returns the largest declared value up to a bound, or the bound itself.
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

// CostOf returns the cost of a config. Several parameters may set one field of the cost; the largest value counts.
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

// Changes returns the first parameter of a class that has different values in c and in the default config dflt. It
// returns "" if there is none.
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
	Machine() ep.Machine
	// Kernels lists the kernels to sweep. Gains are relative to the first kernel that serves the layout.
	Kernels() []Kernel
	// An error means that the workload cannot run here.
	Open(context.Context, *workloads.Workload) (Session, error)
	Close() error
}

// Session runs candidates over one workload. One goroutine at a time may use it. It survives a *Failure and no
// other error.
type Session interface {
	// Prepare compiles, allocates and loads a candidate. Preparing twice is free. All work that could block another
	// rank happens here and not in Run.
	Prepare(context.Context, ep.Config) error
	// Run performs spec.Rounds collective rounds of a prepared candidate. It queues the work of all ranks before it
	// waits for any.
	Run(context.Context, ep.Config, RunSpec) (Rounds, error)
	// Verify runs a prepared candidate once from poisoned buffers and compares every output with the oracle.
	Verify(context.Context, ep.Config) (Comparison, error)
	Close() error
}

// RunSpec asks for measured rounds.
type RunSpec struct {
	Rounds int
	Fold   int // calls averaged in one round, at least 1
}

// AsyncVerifier is implemented by sessions that can compare outputs while they run the next candidate.
type AsyncVerifier interface {
	// StartVerify runs a prepared candidate as Verify does. finish compares the outputs. Any goroutine may call
	// finish, also while the session runs other candidates.
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

// Turn asks for one round of a prepared candidate, with Fold calls. The JSON names are those of the worker protocol.
type Turn struct {
	Config ep.Config `json:"config"`
	Fold   int       `json:"fold"`
}

// TurnRunner is implemented by sessions for which many turns at once cost less than many Runs.
type TurnRunner interface {
	// RunTurns runs turns in order. It returns the rounds that are done, also with an error. It may also stop early,
	// after any turn, without an error.
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
	Clock   string      `json:"clock"`           // chain, span, span:STAGE, event or wall
	Fold    int         `json:"fold"`            // calls in each round
	Seconds [][]float64 `json:"seconds"`         // [round][rank], of one call
	MHz     []float64   `json:"mhz,omitempty"`   // SM clock of each rank in the last round; nil if unknown
	Notes   []string    `json:"notes,omitempty"` // throttling and the like

	// Beside holds the times of calls that ran beside the problem's matrix product. Seconds is computed from these
	// times.
	Beside *ep.BesideRounds `json:"beside,omitempty"`

	// Stages holds the seconds of each stage of a layer, on the slowest rank.
	Stages []ep.StageTime `json:"stages,omitempty"`

	Took ep.RunTime `json:"took,omitzero"`
}

// Comparison is the result of comparing outputs with the oracle. The JSON names are those of the worker
// protocol.
type Comparison struct {
	Rows   int     `json:"rows"`
	Wrong  int     `json:"wrong"`            // rows outside tolerance
	MaxErr float64 `json:"max_err"`          // relative to the row's largest magnitude
	Detail string  `json:"detail,omitempty"` // first difference: rank, row, column, want, got

	Took ep.CheckTime `json:"took,omitzero"`
}

// OK reports whether no row is wrong. It is also true if no row was compared.
func (c Comparison) OK() bool { return c.Wrong == 0 }
