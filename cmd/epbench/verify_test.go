package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"
)

// TestVerifyInterrupted: after Ctrl-C verify prints how many cases ran.
func TestVerifyInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(300*time.Millisecond, cancel)
	var out, errors bytes.Buffer
	code := run(ctx, []string{"verify", "--backend", "cpu", "--stress"}, &out, &errors)
	if want := regexp.MustCompile(`(?m)^epbench: interrupted after [0-9]+ of [0-9]+ cases$`); code != exitInterrupted || !want.MatchString(errors.String()) {
		t.Errorf("exit code %d: %s", code, errors.String())
	}
}
