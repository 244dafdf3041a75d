//go:build unix

// Package processor measures what a test costs, for tests of speed on hosts that others
// use too.
package processor

import (
	"syscall"
	"testing"
	"time"
)

// Time returns the processor time that this process has used so far, in all its threads.
// Read it before and after some work: the difference does not grow when other processes
// run, as wall time does.
func Time(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
