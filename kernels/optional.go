package kernels

import (
	"context"

	"github.com/epbench/epbench/tune/ep"
)

// Clocker is implemented by backends that can time an empty kernel.
type Clocker interface {
	Empty(context.Context) (map[string]float64, error)
}

// Versioned is implemented by backends that know the build of their kernels.
type Versioned interface{ ABI() ep.ABI }

// Restarting is implemented by backends that restart a lost worker.
type Restarting interface {
	Losses() []string
}

// MultiSession is implemented by backends that can hold several sessions at once.
type MultiSession interface{ MultiSession() bool }

// Precompiler is implemented by backends that can compile early and in parallel.
type Precompiler interface {
	// Precompile returns at once. Prepare returns the errors of the compilation.
	Precompile(ep.Problem, []ep.Config)
}

// ProductRunner is implemented by backends that run matrix products beside calls.
type ProductRunner interface {
	Products() []string
}

// Condition is an expression that every legal config of a kernel satisfies: see docs/worker-protocol.md.
type Condition struct{ Expr, Reason string }

// Conditioned is implemented by backends that can state Conditions.
type Conditioned interface {
	Conditions(kernel string) []Condition
}

// Explainer is implemented by sessions that can find out how a call slows down the matrix product beside it.
type Explainer interface {
	Explain(ctx context.Context, c ep.Config, rounds int) ([]Effect, error)
}

// Effect holds the product's times with and without a load, in seconds of the slowest rank.
type Effect struct {
	Load  string    `json:"beside"`
	Alone []float64 `json:"alone"`
	With  []float64 `json:"with"`
}

// Digester is implemented by sessions that can hash the combined tokens of all ranks.
type Digester interface {
	Digest(context.Context, ep.Config) (string, error)
}
