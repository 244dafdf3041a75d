//go:build unix

// Package processor measures what a test costs, for tests of speed on hosts that others
// use too.
package processor

import (
	"syscall"
	"testing"
	"time"
)

// Time is the processor time that this process has used so far, in all its threads. Its
// difference over a piece of work is what that work takes alone; the wall clock also
// counts the turns of other processes.
func Time(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
