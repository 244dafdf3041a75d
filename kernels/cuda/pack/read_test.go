package pack

import (
	"bytes"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestReadChecksManifest: Read refuses a manifest with impossible sizes, or one that contradicts the
// pack's records.
func TestReadChecksManifest(t *testing.T) {
	good := build(t, func(r *Request) { r.Problem.MaxTokens = 8 }, row(ep.Dispatch, 1, 4096, dispatchLL, 1)).Data
	for old, c := range map[string]struct{ new, want string }{
		`"ranks": 2`:     {`"ranks": 0`, "ranks"},
		`"nodes": 1`:     {`"nodes": 0`, "nodes"},
		`"hidden": 7168`: {`"hidden": -168`, "hidden"},
		`"dtypes": [`:    {`"dtypez": [`, "manifest names 0"},
	} {
		bad := bytes.Replace(good, []byte(old), []byte(c.new), 1)
		if bytes.Equal(bad, good) {
			t.Fatalf("%s is not in the manifest", old)
		}
		if _, err := Read(reseal(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
}
