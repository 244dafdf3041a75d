package kernels

import "fmt"

// Status is how a trial ended.
type Status string

const (
	OK       Status = "ok"
	Illegal  Status = "illegal"  // Check refused it
	NoBuild  Status = "compile"  // it does not compile
	NoLaunch Status = "launch"   // it does not load or start
	Mismatch Status = "mismatch" // its answer is wrong
	Hang     Status = "hang"     // it passed its deadline
	Crash    Status = "crash"    // it took its process down
	Unstable Status = "unstable" // its times cannot be trusted
)

// Failure is the verdict on a candidate, not on the machine: the sweep goes
// on without it.
type Failure struct {
	Status Status
	Reason string
}

func (f *Failure) Error() string { return string(f.Status) + ": " + f.Reason }

// Failf makes a Failure.
func Failf(s Status, format string, args ...any) *Failure {
	return &Failure{Status: s, Reason: fmt.Sprintf(format, args...)}
}
