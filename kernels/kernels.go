// Package kernels defines the interfaces between the tuner and the code that moves tokens between GPUs.
//
// A [Kernel] implements an operation. Dispatch sends each token to the GPUs that hold its experts. Combine brings the
// experts' outputs back and adds them up. A config ([ep.Config]) is a kernel with values for its parameters. A
// [Backend] runs kernels on one kind of machine, and its [Session] measures configs on one problem. A rank is one GPU.
package kernels

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Binding says what must be done again when a parameter changes.
type Binding string

const (
	Compile Binding = "compile" // compile the device code
	Setup   Binding = "session" // allocate the buffers
	Launch  Binding = "launch"  // nothing
)

// Class says what the value of a parameter changes.
type Class string

const (
	Speed     Class = "speed"     // only the time
	Precision Class = "precision" // also rounding; searched only for ep.Reduced
	Hook      Class = "hook"      // the computation; only the caller sets it
)

// Cost says which resource a parameter sets: SMs, threads or bytes of buffers. NoCost means none of them.
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
	Values  []ep.Value `json:"values"` // what a search tries
	Default ep.Value   `json:"default"`
	Binding Binding    `json:"binding"`
	Class   Class      `json:"class"`
	Cost    Cost       `json:"cost"`

	// Before is the value to add to a config of an earlier build, in which the parameter did not exist.
	Before ep.Value `json:"before,omitempty"`

	// Design is true if each value selects another algorithm.
	Design bool `json:"design,omitempty"`

	// Outside belongs to a parameter of class Hook. It maps a value to the part of the work that the kernel then leaves
	// to the caller, such as "cast". See ep.Parts.
	Outside map[ep.Value]string `json:"outside,omitempty"`
}

// Kernel is one implementation of an operation.
type Kernel struct {
	Name   string
	Op     ep.Op
	Doc    string
	Params []Param
	// Revision must rise when old configs would do something else with the new code. Table rows of another revision
	// are refused. A faster kernel keeps its revision. A missing revision (0) counts as 1.
	Revision int
	// Formerly says, for each removed kernel, how a config of that kernel becomes a config of this kernel.
	Formerly map[string]Former
	// Work says what the kernel outputs and what its time includes.
	Work ep.Work
	// Layouts lists the layouts of received rows that the kernel serves. Nil means ep.LayoutExpert.
	Layouts []ep.Layout
	// Check returns why a config cannot run, or nil. It needs no GPU. Its error names the parameter and the bound.
	Check func(ep.Machine, ep.Problem, ep.Config) error
	// CheckPair returns why this combine cannot follow a dispatch, or nil. A nil CheckPair allows every dispatch.
	CheckPair func(dispatch, combine ep.Config) error
	// Default returns the default config. If Default is nil, each parameter has its own default.
	Default func(ep.Machine, ep.Problem) ep.Config
	// Starts returns configs that every search measures besides the default. Starts may be nil.
	Starts func(ep.Machine, ep.Problem) []ep.Config
	// Overlapped changes a config so that the kernel may run at the same time as the other kernel of a pair.
	// Overlapped may be nil.
	Overlapped func(ep.Config) ep.Config
	// Split returns the default config that sends in one launch and receives in a second launch. Split may be nil.
	Split func(ep.Machine, ep.Problem) ep.Config
}

// ModeParam is the parameter that chooses between one launch (ModeFused) and two launches, of which the first sends
// and the second receives (ModeSplit).
const (
	ModeParam = "mode"
	ModeFused = "fused"
	ModeSplit = "split"
)

// Splits reports whether c, a config of k, sends and receives in two launches.
func (k Kernel) Splits(c ep.Config) bool { return k.Split != nil && c.Str(ModeParam) == ModeSplit }

// SplitWithin returns the config of k.Split with at most `sms` SMs; 0 means no limit. k.Split must not be nil.
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

// DefaultConfig returns the config that a caller without a tuned table launches.
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

// DefaultWithin returns the default config with at most `sms` SMs; 0 means no limit.
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

// StartsWithin returns the configs of DefaultWithin and k.Starts, with at most `sms` SMs.
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

// CostOf returns the resources that a config takes.
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

// Changes returns the name of the first parameter in the given class that has different values in c and in dflt. It
// returns "" if there is no such parameter.
func (k Kernel) Changes(of Class, dflt, c ep.Config) string {
	for _, q := range k.Params {
		if q.Class == of && c.Values[q.Name] != dflt.Values[q.Name] {
			return q.Name
		}
	}
	return ""
}

// Backend runs kernels on one kind of machine. Only one goroutine at a time may use it.
type Backend interface {
	Machine() ep.Machine
	// Kernels lists the kernels to search. For each operation and layout, the default of the first kernel is the
	// baseline.
	Kernels() []Kernel
	// Open returns a session for a workload: a problem, and the experts that its tokens select.
	Open(context.Context, *workloads.Workload) (Session, error)
	Close() error
}

// Session runs configs on one workload. Only one goroutine at a time may use it. After a *Failure it can still
// run other configs. After any other error it must be closed.
type Session interface {
	// Prepare compiles and loads a config's kernel and allocates its buffers. Work that could block another rank
	// belongs here, not in Run.
	Prepare(context.Context, ep.Config) error
	// Run measures a prepared config. It queues the work of all ranks before it waits for any rank.
	Run(context.Context, ep.Config, RunSpec) (Rounds, error)
	// Verify fills the outputs with a pattern, runs a prepared config once, and compares the outputs with a reference.
	Verify(context.Context, ep.Config) (Comparison, error)
	Close() error
}

// RunSpec says how often Run calls a config. A round's time is the mean of Fold calls.
type RunSpec struct {
	Rounds int
	Fold   int // at least 1
}

// AsyncVerifier is implemented by sessions that can compare the outputs of one config while another runs.
type AsyncVerifier interface {
	// StartVerify runs a prepared config. Any goroutine may call finish, which compares the outputs, while other
	// configs run.
	StartVerify(context.Context, ep.Config) (finish func() Comparison, err error)
}

// StartVerify calls s.StartVerify, or s.Verify if s is no AsyncVerifier.
func StartVerify(ctx context.Context, s Session, c ep.Config) (finish func() Comparison, err error) {
	if d, ok := s.(AsyncVerifier); ok {
		return d.StartVerify(ctx, c)
	}
	v, err := s.Verify(ctx, c)
	return func() Comparison { return v }, err
}

// Turn asks for one round of a prepared config. The worker protocol fixes the JSON names.
type Turn struct {
	Config ep.Config `json:"config"`
	Fold   int       `json:"fold"`
}

// TurnRunner is implemented by sessions that can run turns faster together than one by one.
type TurnRunner interface {
	// RunTurns runs turns in order. With or without an error, it returns the Rounds of all turns that ran. It may stop
	// early without an error.
	RunTurns(context.Context, []Turn) ([]Rounds, error)
}

// RunTurns calls s.RunTurns, or s.Run for each turn if s is no TurnRunner.
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

// Rounds holds the times that Run measured. The worker protocol fixes the JSON names.
type Rounds struct {
	Clock   string      `json:"clock"`           // chain, span, span:STAGE, event or wall
	Fold    int         `json:"fold"`            // calls in each round
	Seconds [][]float64 `json:"seconds"`         // [round][rank] time of one call
	MHz     []float64   `json:"mhz,omitempty"`   // SM clock of each rank; nil if unknown
	Notes   []string    `json:"notes,omitempty"` // what may have disturbed the times

	// Beside is set if the calls were measured while a matrix product ran. It holds the times of both, from which
	// Seconds is computed.
	Beside *ep.BesideRounds `json:"beside,omitempty"`

	// Stages holds the times of an MoE layer's stages on the slowest rank.
	Stages []ep.StageTime `json:"stages,omitempty"`

	Took ep.RunTime `json:"took,omitzero"`
}

// Comparison says how outputs differ from a reference. The worker protocol fixes the JSON names.
type Comparison struct {
	Rows   int     `json:"rows"`
	Wrong  int     `json:"wrong"`            // rows with too large errors
	MaxErr float64 `json:"max_err"`          // largest error, as a fraction of the row's maximum
	Detail string  `json:"detail,omitempty"` // the first difference

	Took ep.CheckTime `json:"took,omitzero"`
}

// OK reports whether all compared rows are right.
func (c Comparison) OK() bool { return c.Wrong == 0 }
