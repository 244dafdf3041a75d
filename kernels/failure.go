package kernels

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// Failure is the verdict on a candidate, not on the machine: the sweep goes
// on without it.
type Failure struct {
	Status ep.Status
	Reason string
}

func (f *Failure) Error() string { return string(f.Status) + ": " + f.Reason }

// Failf makes a Failure.
func Failf(s ep.Status, format string, args ...any) *Failure {
	return &Failure{Status: s, Reason: fmt.Sprintf(format, args...)}
}
