//go:build unix

// Package processor measures the processor time of speed tests.
package processor

import (
	"syscall"
	"testing"
	"time"
)

// Time returns the processor time of this process so far, in all its threads.
func Time(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
