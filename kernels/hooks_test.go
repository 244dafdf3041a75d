package kernels

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestWithHooks: with input=fp8 the caller casts, so Work.Inside must not list "cast".
func TestWithHooks(t *testing.T) {
	input := Param{Name: "input", Values: []ep.Value{"bf16", "fp8"}, Default: "bf16", Class: Hook, Outside: map[ep.Value]string{"fp8": "cast"}}
	sms := Param{Name: "sms", Values: []ep.Value{"8", "16"}, Default: "8", Class: Speed}
	legal := func(ep.Machine, ep.Problem, ep.Config) error { return nil }
	work := ep.Work{Library: "x", Layout: "rank", Inside: []string{"cast", "counts"}}
	all := []Kernel{
		{Name: "casts", Op: ep.Dispatch, Params: []Param{sms}, Work: work, Check: legal},
		{Name: "either", Op: ep.Dispatch, Params: []Param{sms, input}, Work: work, Check: legal,
			Starts: func(ep.Machine, ep.Problem) []ep.Config {
				return []ep.Config{{Kernel: "either", Values: map[string]ep.Value{"sms": "16", "input": "bf16"}}}
			}},
		{Name: "back", Op: ep.Combine, Params: []Param{sms}, Check: legal},
	}
	for _, given := range []map[string][]ep.Value{nil, {"sms": {"16"}}, {"input": {"bf16", "fp8"}}} {
		if got := WithHooks(all, given); len(got) != len(all) {
			t.Errorf("%v: %d of %d kernels are left", given, len(got), len(all))
		}
	}
	got := WithHooks(all, map[string][]ep.Value{"input": {"fp8"}, "sms": {"16"}})
	if len(got) != 2 || got[0].Name != "either" || got[1].Name != "back" {
		t.Fatalf("%d kernels are left", len(got))
	}
	k, m, p := got[0], ep.Machine{}, ep.Problem{}
	if c := k.DefaultConfig(m, p); c.Str("input") != "fp8" || c.Str("sms") != "8" {
		t.Errorf("the default is %s", c.Key())
	}
	if c := k.Starts(m, p)[0]; c.Str("input") != "fp8" || c.Str("sms") != "16" {
		t.Errorf("Starts returns %s", c.Key())
	}
	if err := k.Check(m, p, k.DefaultConfig(m, p).With("input", "bf16")); err == nil || !strings.HasPrefix(err.Error(), "input: is bf16, but the caller needs fp8") {
		t.Errorf("a value other than the caller's: %v", err)
	}
	if !slices.Equal(k.Work.Inside, []string{"counts"}) || !slices.Equal(all[1].Work.Inside, []string{"cast", "counts"}) {
		t.Errorf("Work.Inside is %v, and %v in the original kernel", k.Work.Inside, all[1].Work.Inside)
	}
}

func TestSpellHooks(t *testing.T) {
	hook := func(name string, values ...ep.Value) Param {
		return Param{Name: name, Values: values, Default: values[0], Class: Hook}
	}
	all := []Kernel{
		{Name: "a", Op: ep.Dispatch, Params: []Param{hook("input", "bf16", "fp8"), {Name: "sms", Class: Speed}}},
		{Name: "b", Op: ep.Activation, Params: []Param{hook("input", "bf16", "fp8"), hook("columns", "split", "interleaved")}},
	}
	given := map[string][]ep.Value{"input": {"fp8"}, "columns": {"interleaved"}, "sms": {"8"}}
	if got := SpellHooks(all, given); got != "columns=interleaved,input=fp8" {
		t.Errorf("%q", got)
	}
	if got := ParseHooks("columns=interleaved,input=fp8"); len(got) != 2 || got["input"][0] != "fp8" || got["columns"][0] != "interleaved" {
		t.Errorf("%v", got)
	}
	for _, none := range []map[string][]ep.Value{nil, {"input": {"bf16"}}, {"input": {"bf16", "fp8"}}, {"sms": {"8"}}} {
		if got := SpellHooks(all, none); got != "" || len(ParseHooks(got)) != 0 {
			t.Errorf("%v: %q", none, got)
		}
	}
}
