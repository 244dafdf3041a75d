package kernels

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// Failure is how a candidate ended that is not ok. The machine and the session
// are fine, and the sweep goes on without the candidate.
type Failure struct {
	Status ep.Status
	Reason string
}

func (f *Failure) Error() string { return string(f.Status) + ": " + f.Reason }

// Failf makes a Failure.
func Failf(s ep.Status, format string, args ...any) *Failure {
	return &Failure{Status: s, Reason: fmt.Sprintf(format, args...)}
}
