package kernels

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// Failure is the error of a candidate whose status is not ok.
type Failure struct {
	Status ep.Status
	Reason string
}

func (f *Failure) Error() string { return string(f.Status) + ": " + f.Reason }

func Failf(s ep.Status, format string, args ...any) *Failure {
	return &Failure{Status: s, Reason: fmt.Sprintf(format, args...)}
}
