//go:build !unix

package processor

import (
	"testing"
	"time"
)

// Time skips the test, because this system has no getrusage.
func Time(t testing.TB) time.Duration {
	t.Helper()
	t.Skip("processor time is read on Unix only")
	return 0
}
