package main

import (
	"testing"
	"time"
)

func TestRemainingCountsDown(t *testing.T) {
	for running, want := range map[time.Duration]time.Duration{0: 20 * time.Second, 5 * time.Second: 15 * time.Second, time.Minute: 0} {
		if got := remaining(20*time.Second, running, 2, 4); got != want {
			t.Errorf("after %v: %v, want %v", running, got, want)
		}
	}
}
