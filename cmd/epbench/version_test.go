package main

import (
	"runtime/debug"
	"testing"
)

// TestVersionOf: go install says the module's version, a build of a checkout none.
func TestVersionOf(t *testing.T) {
	fetched := &debug.BuildInfo{Main: debug.Module{Version: "v0.3.1", Sum: "h1:x"}}
	checkout := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261122165700-b9a1b7f0c0de+dirty"}}
	for _, c := range []struct {
		info *debug.BuildInfo
		ok   bool
		want string
	}{{fetched, true, "0.3.1"}, {checkout, true, "0.1.0-dev"}, {nil, false, "0.1.0-dev"}} {
		if got := versionOf(c.info, c.ok); got != c.want {
			t.Errorf("%+v: %s, want %s", c.info, got, c.want)
		}
	}
}
