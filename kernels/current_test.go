package kernels

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestCurrent: a config of an earlier build gets the names and parameters of this build.
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

// TestFormerNamesAreSpelled: a user may spell a config with the kernel names of an earlier build.
func TestFormerNamesAreSpelled(t *testing.T) {
	k := Kernel{Name: "d", Op: ep.Dispatch, Params: []Param{
		{Name: "sms", Values: []ep.Value{"8", "16"}, Default: "16"},
		{Name: ModeParam, Values: []ep.Value{ModeFused, ModeSplit}, Default: ModeFused, Before: ModeFused},
		{Name: "recv_sms", Values: []ep.Value{"0", "8"}, Default: "0", Before: "0"}},
		Formerly: map[string]Former{"d_split": {Values: map[string]ep.Value{ModeParam: ModeSplit}}}}
	k.Split = func(ep.Machine, ep.Problem) ep.Config {
		return ep.Config{Kernel: "d", Values: map[string]ep.Value{"sms": "16", ModeParam: ModeSplit, "recv_sms": "16"}}
	}
	for spelled, want := range map[string]string{
		"d_split:sms=8":         "d:mode=split,recv_sms=16,sms=8",
		"d_split:recv_sms=8":    "d:mode=split,recv_sms=8,sms=16",
		"d:mode=split":          "d:mode=split,recv_sms=16,sms=16",
		"d:sms=8":               "d:mode=fused,recv_sms=0,sms=8",
		"d_split:recv_sms=many": "",
	} {
		c, err := ParseConfig([]Kernel{k}, ep.Machine{}, ep.Problem{Op: ep.Dispatch}, spelled)
		if (err != nil) != (want == "") || err == nil && c.Key() != want {
			t.Errorf("%s is %s, %v; want %s", spelled, c.Key(), err, want)
		}
	}
}
