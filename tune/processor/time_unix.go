//go:build unix

// Package processor measures the processor time of speed tests on hosts that run other programs
// too.
package processor

import (
	"syscall"
	"testing"
	"time"
)

// Time returns the processor time that this process has used so far, in all its threads.
// Call it before and after some work. Unlike wall time, the difference does not grow if other
// processes run.
func Time(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
