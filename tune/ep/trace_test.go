package ep_test

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestTraceSpecs(t *testing.T) {
	for _, c := range []struct{ spec, label, content, digest string }{
		{"uniform", "uniform", "uniform", ""},
		{"zipf:1.0+eplb:8", "zipf:1.0+eplb:8", "zipf:1.0+eplb:8", ""},
		{"trace:a/t.npz", "trace:a/t.npz", "trace:a/t.npz", ""},
		{"trace:a/t.npz@0123456789ab", "trace:a/t.npz", "trace:@0123456789ab", "0123456789ab"},
		{"trace:t@x.npz@0123456789ab+eplb:8", "trace:t@x.npz+eplb:8", "trace:@0123456789ab+eplb:8", "0123456789ab"},
		{"trace:t@0123456789", "trace:t@0123456789", "trace:t@0123456789", ""},       // too short
		{"trace:t@0123456789AB", "trace:t@0123456789AB", "trace:t@0123456789AB", ""}, // not lower-case hex
		{"trace:@0123456789ab", "trace:@0123456789ab", "trace:@0123456789ab", ""},    // no file
		{"trace:", "trace:", "trace:", ""},
	} {
		if l, x, d := ep.RoutingLabel(c.spec), ep.RoutingContent(c.spec), ep.RoutingDigest(c.spec); l != c.label || x != c.content || d != c.digest {
			t.Errorf("%s: label %s, content %s, digest %q", c.spec, l, x, d)
		}
	}
}
