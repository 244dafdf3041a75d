package kernels

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestCurrent: a config of a former kernel and a config without a newer parameter are rewritten
// for this build. The given config is not changed.
func TestCurrent(t *testing.T) {
	all := []Kernel{
		{Name: "combine_polled", Op: ep.Combine, Params: []Param{{Name: "sms"}, {Name: "sum"}, {Name: "pause", Before: "0"}},
			Formerly: map[string]Former{"combine_ll": {Revision: 1, Values: map[string]ep.Value{"sum": "rows"}}}},
		{Name: "dispatch_ll", Op: ep.Dispatch, Params: []Param{{Name: "sms"}}},
	}
	for old, want := range map[string]string{
		"combine_ll:sms=8":                                    "combine_polled:pause=0,sms=8,sum=rows",
		"combine_polled:sms=8,sum=f32":                        "combine_polled:pause=0,sms=8,sum=f32",
		"combine_polled:pause=9,sms=8":                        "combine_polled:pause=9,sms=8",
		"dispatch_ll:sms=8":                                   "dispatch_ll:sms=8",
		"unknown:sms=8":                                       "unknown:sms=8",
		"dispatch_ll+combine_ll:combine.sms=8,dispatch.sms=4": "dispatch_ll+combine_polled:combine.pause=0,combine.sms=8,combine.sum=rows,dispatch.sms=4",
		"default": "default",
	} {
		c, err := ep.ParseConfig(old)
		if err != nil {
			t.Fatal(err)
		}
		before := c.Key()
		if got := Current(all, c).Key(); got != want || c.Key() != before {
			t.Errorf("%s becomes %s, want %s; the given config is now %s", old, got, want, c.Key())
		}
	}
}
