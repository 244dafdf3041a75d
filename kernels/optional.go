package kernels

import (
	"context"

	"github.com/epbench/epbench/tune/ep"
)

// Clocker is implemented by backends that can time an empty kernel. Every run stores these
// times.
type Clocker interface {
	// Empty returns the seconds that each clock reads for a kernel that does nothing.
	Empty(context.Context) (map[string]float64, error)
}

// Versioned is implemented by backends that know the build of their kernels, so that tables
// can name it.
type Versioned interface{ ABI() ep.ABI }

// Restarting is implemented by backends that restart a lost worker.
type Restarting interface {
	// Losses describes each loss of the worker that no candidate caused. A loss that a
	// candidate caused is the candidate's Failure.
	Losses() []string
}

// MultiSession is implemented by backends that can hold several sessions at once, each in memory
// of its own.
type MultiSession interface{ MultiSession() bool }

// Precompiler is implemented by backends that compile. They can compile early and in
// parallel, so that Prepare need not wait.
type Precompiler interface {
	// Precompile announces configs that Prepare will soon be called with. It returns at
	// once; Prepare returns the errors.
	Precompile(ep.Problem, []ep.Config)
}

// ProductRunner is implemented by backends that can run matrix products at the same time as
// calls.
type ProductRunner interface {
	// Products lists the kinds of ep.Product that the backend runs.
	Products() []string
}

// Condition is an expression that every legal config of a kernel satisfies. Programs that cannot
// call the kernel's Check evaluate it. docs/worker-protocol.md has the rules.
type Condition struct{ Expr, Reason string }

// Conditioned is implemented by backends that can state which configs of their kernels are legal.
type Conditioned interface {
	// Conditions returns the conditions of the kernel with that name.
	Conditions(kernel string) []Condition
}

// Explainer is implemented by sessions that can find out which resource of a call slows
// down the matrix product beside it.
type Explainer interface {
	// Explain measures the matrix product of the session's problem beside (at the same time
	// as) a prepared candidate. It also measures the product beside artificial loads: each
	// load takes away one of the resources that the candidate takes.
	Explain(ctx context.Context, c ep.Config, rounds int) ([]Effect, error)
}

// Effect compares the times of a matrix product with and without one artificial load. Each time is
// the seconds of the slowest rank in one round.
type Effect struct {
	Load  string    `json:"beside"` // name of the load
	Alone []float64 `json:"alone"`  // times of the product alone
	With  []float64 `json:"with"`   // times of the product while the load runs
}

// Digester is implemented by sessions that can show whether runs repeat bit by bit.
type Digester interface {
	// Digest runs a prepared combine or pair once from poisoned buffers and returns a hash of
	// the combined tokens of all ranks.
	Digest(context.Context, ep.Config) (string, error)
}
