// Package kernels defines the interfaces between the tuner and the code that moves tokens between GPUs.
//
// A [Kernel] is one implementation of an operation. The operation dispatch sends each token to the GPUs that hold its
// experts. The operation combine brings the experts' outputs back and adds them up. A kernel has launch parameters, and
// a config ([ep.Config]) is a kernel with a value for each of its parameters. A [Backend] runs kernels on one kind of
// machine. It opens a [Session] for each problem to measure, and the session runs configs and times them. A rank is one
// GPU, with its share of the experts and tokens.
package kernels

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Binding says what has to be done again when the value of a parameter changes.
type Binding string

const (
	Compile Binding = "compile" // the device code must be compiled again
	Setup   Binding = "session" // the buffers must be allocated again
	Launch  Binding = "launch"  // nothing: the next launch uses the new value
)

// Class says what a parameter has an effect on.
type Class string

const (
	Speed     Class = "speed"     // only the time of a call
	Precision Class = "precision" // the time and the rounding of the result; a search varies it only if the user allows reduced precision (ep.Reduced)
	Hook      Class = "hook"      // what the kernel computes; the caller sets it, and no search varies it
)

// Cost names the resource of which a parameter sets the amount. NoCost means none. Each of the others is a field of
// ep.Cost.
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
	Values  []ep.Value `json:"values"`  // what a sweep tries, unless the user gives other values
	Default ep.Value   `json:"default"` // usually one of Values
	Binding Binding    `json:"binding"`
	Class   Class      `json:"class"`
	Cost    Cost       `json:"cost"`

	// Before is set if earlier builds of epbench did not have this parameter. Their kernels behaved as today's kernel
	// does with the value Before, so configs that they wrote get this value.
	Before ep.Value `json:"before,omitempty"`

	// Design is true if each value selects another algorithm. A search then treats the values like different kernels,
	// and measures some configs with each of them.
	Design bool `json:"design,omitempty"`

	// Outside may be set for a parameter of class Hook. With some values of such a parameter, the caller does a part of
	// the work before it calls the kernel. Outside maps each of these values to the name of that part in ep.Parts.
	Outside map[ep.Value]string `json:"outside,omitempty"`
}

// Kernel is one implementation of an operation.
type Kernel struct {
	Name   string
	Op     ep.Op
	Doc    string
	Params []Param
	// Revision is the version of the parameters' meanings; 0 means 1. Raise it by hand when an old config would now do
	// something else: rows of tuned tables that were measured with another revision are then refused. Do not raise it
	// when a change only makes the kernel faster.
	Revision int
	// Formerly describes kernels of earlier builds that have become configs of this kernel. Its keys are their names.
	Formerly map[string]Former
	// Work says what the kernel outputs and what its time includes.
	Work ep.Work
	// Layouts lists the ways in which this kernel can arrange received rows in memory. Nil means only ep.LayoutExpert.
	Layouts []ep.Layout
	// Check returns why a config cannot run, or nil if it can. It needs no GPU. Its error names the parameter and the
	// bound that the value breaks.
	Check func(ep.Machine, ep.Problem, ep.Config) error
	// CheckPair is for combine kernels. It returns why this combine cannot follow this dispatch, or nil if it can. If
	// CheckPair is nil, the combine can follow every dispatch.
	CheckPair func(dispatch, combine ep.Config) error
	// Default returns the config that a caller without a tuned table launches. If Default is nil, this config has each
	// parameter's own default value.
	Default func(ep.Machine, ep.Problem) ep.Config
	// Starts returns configs that every search measures besides the default config. Nil means no such configs.
	Starts func(ep.Machine, ep.Problem) []ep.Config
	// Overlapped is for a dispatch and a combine that are launched one after the other. It changes a config so that this
	// kernel may run at the same time as the other one. If Overlapped is nil, the kernel cannot do that.
	Overlapped func(ep.Config) ep.Config
	// Split returns the default among the configs that send in one launch and receive in a second one. If Split is nil,
	// the kernel has no such configs.
	Split func(ep.Machine, ep.Problem) ep.Config
}

// ModeParam is the parameter that chooses between one launch (ModeFused) and two launches (ModeSplit), of which one
// sends and the other receives.
const (
	ModeParam = "mode"
	ModeFused = "fused"
	ModeSplit = "split"
)

// Splits reports whether c sends and receives in two launches. c must be a config of k.
func (k Kernel) Splits(c ep.Config) bool { return k.Split != nil && c.Str(ModeParam) == ModeSplit }

// SplitWithin returns the config of k.Split, limited to `sms` SMs. If sms is 0, the number of SMs is not limited. k.Split
// must not be nil.
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

// DefaultWithin returns the default config, limited to `sms` SMs. If sms is 0, the number of SMs is not limited.
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

// StartsWithin returns the default config and the configs of k.Starts, for a machine that has at most `sms` SMs. If sms
// is 0, the number of SMs is not limited.
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

// within returns the largest of q.Values that is not above the bound. If all are above it, within returns the bound.
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

// CostOf returns the resources that a config takes. If several parameters are amounts of one resource, the largest of
// their values counts.
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

// Changes looks only at the parameters of one class. It returns the name of the first one whose value in c differs from
// the value in the default config dflt, or "" if none differs.
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
	// Kernels lists the kernels that a sweep searches. For each operation and layout, the default config of the first
	// kernel is the one that all other configs are compared with.
	Kernels() []Kernel
	// Open returns a session for a workload, which is a problem with a routing (which experts the tokens select). It
	// returns an error if the workload cannot run here.
	Open(context.Context, *workloads.Workload) (Session, error)
	Close() error
}

// Session runs configs on one workload, in memory that is laid out once. Only one goroutine at a time may use it. After
// an error of type *Failure the session can run other configs. After any other error it must be closed.
type Session interface {
	// Prepare compiles and loads the kernel of a config, and allocates its buffers. A second call with the same config
	// costs nothing. All work that could block another rank must happen here, and not in Run.
	Prepare(context.Context, ep.Config) error
	// Run measures a prepared config in spec.Rounds rounds. In each round all ranks take part. Run queues the work of
	// all ranks before it waits for any of them.
	Run(context.Context, ep.Config, RunSpec) (Rounds, error)
	// Verify checks the outputs of a prepared config. It fills the outputs with a pattern, so that it notices what the
	// kernel does not write. It then runs the config once, and compares every output with a reference that is computed
	// on the CPU.
	Verify(context.Context, ep.Config) (Comparison, error)
	Close() error
}

// RunSpec says how often Run calls a config. Each round is Fold calls in a row, and its time is their mean.
type RunSpec struct {
	Rounds int
	Fold   int // at least 1
}

// AsyncVerifier is implemented by sessions that can compare the outputs of one config while they run another.
type AsyncVerifier interface {
	// StartVerify does the first part of Verify: it runs a prepared config. The function finish does the second part: it
	// compares the outputs. Any goroutine may call finish, also while the session runs other configs.
	StartVerify(context.Context, ep.Config) (finish func() Comparison, err error)
}

// StartVerify calls the StartVerify of a session. If the session has no such method, it calls Verify.
func StartVerify(ctx context.Context, s Session, c ep.Config) (finish func() Comparison, err error) {
	if d, ok := s.(AsyncVerifier); ok {
		return d.StartVerify(ctx, c)
	}
	v, err := s.Verify(ctx, c)
	return func() Comparison { return v }, err
}

// Turn asks for one round of a prepared config. The JSON names are those of the worker protocol.
type Turn struct {
	Config ep.Config `json:"config"`
	Fold   int       `json:"fold"` // calls in the round
}

// TurnRunner is implemented by sessions that can run many rounds of different configs faster than by one Run for each.
type TurnRunner interface {
	// RunTurns runs turns in order, and returns one Rounds for each turn that it has run. If it returns an error, the
	// Rounds of the turns before the error are valid. It may run only the first few turns and return no error.
	RunTurns(context.Context, []Turn) ([]Rounds, error)
}

// RunTurns calls the RunTurns of a session. If the session has no such method, it calls Run once for each turn.
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

// Rounds holds the times that Run measured. The JSON names are those of the worker protocol.
type Rounds struct {
	Clock   string      `json:"clock"`           // how the time was measured: chain, span, span:STAGE, event or wall
	Fold    int         `json:"fold"`            // calls in each round
	Seconds [][]float64 `json:"seconds"`         // [round][rank] time of one call
	MHz     []float64   `json:"mhz,omitempty"`   // SM clock of each rank in the last round; nil if unknown
	Notes   []string    `json:"notes,omitempty"` // what may have disturbed the times, such as a GPU that lowered its clock

	// Beside is set if the problem asks for calls that run at the same time as a matrix product. It holds the times of
	// the calls and of the product, and Seconds is computed from them.
	Beside *ep.BesideRounds `json:"beside,omitempty"`

	// Stages is set for a whole MoE layer. It holds the time of each stage on the slowest rank.
	Stages []ep.StageTime `json:"stages,omitempty"`

	Took ep.RunTime `json:"took,omitzero"` // how long each step of the run took
}

// Comparison is the result of comparing the outputs of a config with a reference that is computed on the CPU. The JSON
// names are those of the worker protocol.
type Comparison struct {
	Rows   int     `json:"rows"`             // rows compared
	Wrong  int     `json:"wrong"`            // rows whose error is larger than allowed
	MaxErr float64 `json:"max_err"`          // largest error of an element, divided by the largest magnitude in its row
	Detail string  `json:"detail,omitempty"` // the first difference: rank, row, column, expected value, value found

	Took ep.CheckTime `json:"took,omitzero"` // how long each step of the check took
}

// OK reports whether no compared row is wrong. It is also true if no row was compared.
func (c Comparison) OK() bool { return c.Wrong == 0 }
