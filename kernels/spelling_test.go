package kernels_test

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
)

var (
	spellMachine = ep.Machine{Backend: "cpu", SMs: 2}
	spellProblem = ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 512, Experts: 32, TopK: 4,
		Tokens: 16, MaxTokens: 16, Dispatch: ep.BF16, Combine: ep.BF16}
)

func TestSpellingsOfOneConfig(t *testing.T) {
	for _, op := range ep.Exchanges() {
		p := spellProblem
		p.Op = op
		dflt, err := kernels.Default(cpu.Kernels(), spellMachine, p, 0)
		if err != nil {
			t.Fatal(err)
		}
		prefix := ""
		if op == ep.Pair {
			prefix = "combine."
		}
		want := dflt.With(prefix+"mode", "split").With(prefix+"blocks", "2")
		for _, s := range []string{
			want.Key(), want.ID(), want.LongID(), want.Difference(dflt), strings.ReplaceAll(want.Difference(dflt), " ", ","),
			dflt.Kernel + ":" + want.Difference(dflt), dflt.Kernel + ":" + prefix + "blocks=2, " + prefix + "mode=split",
		} {
			got, err := kernels.ParseConfig(cpu.Kernels(), spellMachine, p, s)
			if err != nil || got.Key() != want.Key() {
				t.Errorf("%s: %q is %s, %v", op, s, got.Key(), err)
			}
		}
		if got, err := kernels.ParseConfig(cpu.Kernels(), spellMachine, p, "default"); err != nil || got.Key() != dflt.Key() {
			t.Errorf("%s: default is %s, %v", op, got.Key(), err)
		}
	}
}

func TestBadSpellings(t *testing.T) {
	for _, c := range []struct{ s, want string }{
		{"sideways", `"sideways" is no config: write an id (d7f2), the parameters that differ`},
		{"0000", "no dispatch config here has the id 0000"},
		{"d7f2+0000", "no dispatch config here has the id d7f2+0000"},
		{"dispatch:blox=1,tile=3,mode=fuse,blocks=many", `blocks: "many" is no number; mode: unknown "fuse", use one of fused, split; dispatch has no parameter blox, tile; it has blocks, wait_blocks`},
		{"mode=split mode=fused", "mode is given twice"},
		{"combine:blocks=1", `no dispatch kernel called "combine"`},
		{"blocks", `"blocks" is no config`},
	} {
		if got, err := kernels.ParseConfig(cpu.Kernels(), spellMachine, spellProblem, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q is %s, %v; want %s", c.s, got.Key(), err, c.want)
		}
	}
}

func TestAmbiguousID(t *testing.T) {
	param := kernels.Param{Name: "n", Default: "0"}
	for i := range 3000 {
		param.Values = append(param.Values, ep.Value(string(rune('a'+i%26))+strings.Repeat("x", i/26%8)+strings.Repeat("y", i/208)))
	}
	k := kernels.Kernel{Name: "k", Op: ep.Dispatch, Params: []kernels.Param{param}, Check: func(ep.Machine, ep.Problem, ep.Config) error { return nil }}
	seen := map[string]ep.Config{}
	for _, v := range param.Values {
		c := ep.Config{Kernel: "k", Values: map[string]ep.Value{"n": v}}
		other, twice := seen[c.ID()]
		seen[c.ID()] = c
		if !twice {
			continue
		}
		_, err := kernels.ParseConfig([]kernels.Kernel{k}, spellMachine, spellProblem, c.ID())
		if err == nil || !strings.Contains(err.Error(), c.LongID()+" ("+c.Key()+")") || !strings.Contains(err.Error(), other.LongID()) {
			t.Fatalf("%s is shared: %v", c.ID(), err)
		}
		if got, err := kernels.ParseConfig([]kernels.Kernel{k}, spellMachine, spellProblem, c.LongID()); err != nil || got.Key() != c.Key() {
			t.Fatalf("%s: %s, %v", c.LongID(), got.Key(), err)
		}
		return
	}
	t.Error("no two configs share an id: make the space larger")
}
