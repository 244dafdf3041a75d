package drive

import (
	"testing"
	"time"
)

func TestParseDrill(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Drill
	}{
		{"drop:1:5", Drill{Rank: 1, Drop: 6}},
		{"drop:0:0:mode=split", Drill{Rank: 0, Drop: 1, Config: "mode=split"}},
		{"delay:2:3ms", Drill{Rank: 2, Delay: 3 * time.Millisecond}},
		{"delay:2:3ms:dispatch:sms=4", Drill{Rank: 2, Delay: 3 * time.Millisecond, Config: "dispatch:sms=4"}},
	} {
		if got, err := ParseDrill(c.in); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.in, got, err)
		}
	}
	for _, in := range []string{"", "drop", "drop:1", "drop:x:1", "drop:8:1", "drop:1:-1", "drop:1:x", "drop:1:1024", "delay:1:3", "delay:1:3s", "delay:1:-1ms", "sleep:1:1"} {
		if d, err := ParseDrill(in); err == nil {
			t.Errorf("ParseDrill accepts %q as %+v", in, d)
		}
	}
}
