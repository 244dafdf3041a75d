package spacefile

import (
	"runtime"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/processor"
	"github.com/epbench/epbench/tune/search"
)

func values(t testing.TB, spec string) []ep.Value {
	v, err := ParseValues(spec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var problem = ep.Problem{Op: ep.Dispatch, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128, MaxTokens: 128, Dispatch: ep.BF16}

var machine = ep.Machine{Backend: "cuda", Arch: "sm_90", SMs: 132, GPUs: 8}

func TestRules(t *testing.T) {
	f, err := Read(strings.NewReader(`
version: 1
derived:
  - {name: warps, value: threads / 32}
  - {name: lanes, value: warps * sms}
constraints:
  - {name: fits, keep: sms <= machine.sms}
  - {name: enough work, keep: lanes <= problem.tokens * problem.top_k, kernels: [a]}
  - {keep: 'mode == "fused" or sms >= 16'}
`))
	if err != nil {
		t.Fatal(err)
	}
	axes := []search.Axis{{Name: "sms", Values: values(t, "8,64,200")}, {Name: "threads", Values: values(t, "256,1024")}, {Name: "mode", Values: values(t, "fused,split")}}
	for _, c := range []struct{ key, kernel, want string }{
		{"a:mode=fused,sms=8,threads=256", "a", ""},
		{"a:mode=fused,sms=200,threads=256", "a", "fits"},
		{"a:mode=fused,sms=64,threads=1024", "a", "enough work"},
		{"b:mode=fused,sms=64,threads=1024", "b", ""},
		{"a:mode=split,sms=8,threads=256", "a", `mode == "fused" or sms >= 16`},
	} {
		rules, err := f.Rules(c.kernel, axes, FactsOf(machine, problem))
		if err != nil {
			t.Fatal(err)
		}
		cfg, _ := ep.ParseConfig(c.key)
		got := ""
		for _, r := range rules {
			if got == "" {
				got = r(cfg)
			}
		}
		if got != c.want {
			t.Errorf("%s is removed by %q, want %q", c.key, got, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{"version: 2", "version: 2"},
		{"version: 1\nkernel: {}", "unknown field kernel; did you mean kernels"},
		{"version: 1\nversion: 1", "already defined"},
		{"version: 1\n---\nversion: 1", "more than one"},
		{"version: 1\nderived: [{name: x}]", "derived[0]"},
		{"version: 1\nconstraints: [{name: x}]", "constraints[0]"},
		{"version: 1\nrequired: [default]", "required[0]"},
		{"version: 1\nkernels: {a: {x: {values: [1, 1]}}}", "it is listed twice"},
		{"version: 1\nkernels: {a: {x: {values: [A B]}}}", "lower-case word"},
		{"version: 1\nkernels: {a: {x: {values: 4:1}}}", "1 is below 4"},
		{"version: 1\nkernels: {a: {x: {values: {a: b}}}}", "write a list or a range"},
		{strings.Repeat("a", maxSize+1), "larger than"},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestRulesRefuse(t *testing.T) {
	axes := []search.Axis{{Name: "sms", Values: values(t, "8,64")}, {Name: "mode", Values: values(t, "fused,split")}}
	for _, c := range []struct{ text, want string }{
		{"constraints: [{keep: sms == mode}]", "mismatched types"},
		{"constraints: [{keep: sms + 1}]", "expected bool"},
		{"constraints: [{keep: smms > 1}]", "unknown name smms"},
		{"constraints: [{keep: problem.token > 1}]", "token"},
		{"constraints: [{keep: 'sms >'}]", "unexpected token"},
		{"derived: [{name: sms, value: '1'}]\nconstraints: [{keep: 'true'}]", "has this name"},
		{"derived: [{name: x, value: sms / mode}]\nconstraints: [{keep: 'true'}]", "derived x"},
	} {
		f, err := Read(strings.NewReader("version: 1\n" + c.text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Rules("k", axes, FactsOf(machine, problem)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("version: 1\nkernels: {a: {x: {values: 1:8:x2}}}\nconstraints: [{keep: x > 1}]")
	f.Add("version: 1\nderived: [{name: y, value: 1}]\nrequired: ['a:x=1']")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		axes := []search.Axis{{Name: "x", Values: values(t, "1,2")}}
		if rules, err := file.Rules("a", axes, Facts{}); err == nil {
			for _, r := range rules {
				r(ep.Config{Kernel: "a", Values: map[string]ep.Value{"x": "1"}})
			}
		}
	})
}

func TestPlanningAHundredThousand(t *testing.T) {
	plan := func(tiles string) *search.Space {
		f, err := Read(strings.NewReader("version: 1\nderived: [{name: lanes, value: sms * threads / 32}]\n" +
			"constraints: [{keep: wait < sms}, {keep: lanes <= 4096}]"))
		if err != nil {
			t.Fatal(err)
		}
		g := search.Grid{Kernel: "a", Axes: []search.Axis{
			{Name: "sms", Values: values(t, "2:132:2")}, {Name: "wait", Values: values(t, "0:24:2")},
			{Name: "threads", Values: values(t, "128:1024:128")}, {Name: "chunk", Values: values(t, "1024:65536:x2")}, {Name: "tile", Values: values(t, tiles)},
		}}
		if g.Rules, err = f.Rules("a", g.Axes, FactsOf(machine, problem)); err != nil {
			t.Fatal(err)
		}
		s, _, err := search.NewSpace(g)
		if err != nil {
			t.Fatal(err)
		}
		s.Fingerprint("abi")
		return s
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	points := plan("1:16:x2").Len()
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; points < 100_000 || mb > 500 {
		t.Errorf("%d points took %d MB, at most 500 are allowed", points, mb)
	}
	const bound = 15
	ratio := processor.Ratio(t, 12, bound, func() { plan("1:16:x2") }, func() { plan("1") })
	if t.Logf("five times the points: %.1f times the time", ratio); ratio > bound {
		t.Errorf("five times the points take %.1f times the time, at most %d are allowed", ratio, bound)
	}
}
