package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestVerifyProgress: verify prints progress lines during a long case. After the first case the lines show the
// remaining time.
func TestVerifyProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := startVerifyProgress(&out, 40, verifyEvery)
		time.Sleep(12 * time.Second)
		p.add()
		p.add("case, config: mismatch: row 3")
		time.Sleep(20 * time.Second)
		p.close()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, want := range []string{
			`^verify: 0 of 40 cases$`, `^verify: case, config: mismatch: row 3$`, `^verify: 2 of 40 cases, about 3m40s left$`, `^verify: 2 of 40 cases, about 3m30s left$`,
		} {
			if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
				t.Errorf("line %d: want %s in %q", i, want, lines)
			}
		}
	})
}
