package ep

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValueIsANumberOrAWordInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`7`: "7", `-3`: "-3", `"fused"`: "fused", `"7"`: "7", `"a_b.c+d-e9"`: "a_b.c+d-e9", `"` + strings.Repeat("a", 64) + `"`: strings.Repeat("a", 64),
	} {
		var v Value
		if err := json.Unmarshal([]byte(text), &v); err != nil || string(v) != want {
			t.Errorf("%s: %q, %v", text, v, err)
		}
	}
	for _, text := range []string{``, `7.5`, `07`, `true`, `null`, `""`, `"A"`, `"a b"`, `"é"`, `[1]`, `"` + strings.Repeat("a", 65) + `"`, `"a`} {
		var v Value
		if err := v.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is read as %q", text, v)
		}
	}
	out, err := json.Marshal([]Value{"7", "fused", "07"})
	if err != nil || string(out) != `[7,"fused","07"]` {
		t.Errorf("written as %s, %v", out, err)
	}
}

func TestConfigReadsItsValues(t *testing.T) {
	c := Config{Kernel: "k", Values: map[string]Value{"n": "12", "w": "fused", "z": "012"}}
	if c.Int("n") != 12 || c.Int("w") != 0 || c.Int("none") != 0 || c.Int("z") != 0 || c.Str("w") != "fused" || c.Str("none") != "" {
		t.Errorf("%v", c)
	}
	d := c.With("n", "13")
	if c.Int("n") != 12 || d.Int("n") != 13 || d.Str("w") != "fused" || (Config{Kernel: "k"}).With("n", "1").Key() != "k:n=1" {
		t.Errorf("With: %v from %v", d, c)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":             `config: "" is not kernel:name=value,name=value`,
		"k":            `config: "k" is not kernel:name=value,name=value`,
		":a=1":         `config: ":a=1" is not kernel:name=value,name=value`,
		"K:a=1":        `config: "K:a=1" is not kernel:name=value,name=value`,
		"k:a":          `config: "a" is not name=value`,
		"k:a=":         `config: "a=" is not name=value`,
		"k:=1":         `config: "=1" is not name=value`,
		"k:a=1,":       `config: "" is not name=value`,
		"k:a=1,a=2":    `config: a is given twice`,
		"default:a=1 ": `config: "a=1 " is not name=value`,
	} {
		if c, err := ParseConfig(in); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v; want %s", in, c, err, want)
		}
	}
	if c, err := ParseConfig("k:"); err != nil || c.Key() != "k:" {
		t.Errorf("a kernel without parameters: %v, %v", c, err)
	}
}

func TestConfigKeyReadsBack(t *testing.T) {
	word := rapid.StringMatching(`[a-z0-9_.+-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Kernel: word.Draw(t, "kernel"), Values: map[string]Value{}}
		for range rapid.IntRange(0, 5).Draw(t, "parameters") {
			c.Values[word.Draw(t, "name")] = Value(word.Draw(t, "value"))
		}
		back, err := ParseConfig(c.Key())
		if err != nil || back.Key() != c.Key() || len(back.Values) != len(c.Values) || c.Validate() != nil {
			t.Fatalf("%s reads as %s: %v, %v", c.Key(), back.Key(), err, c.Validate())
		}
	})
}

func TestConfigValidateRefuses(t *testing.T) {
	many := Config{Kernel: "k", Values: map[string]Value{}}
	for i := range MaxParams {
		many.Values[fmt.Sprint("p", i)] = "1"
	}
	for _, c := range []Config{many, {}, {Kernel: "k"}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", c.Key(), err)
		}
	}
	for want, c := range map[string]Config{
		"values: 65 parameters, at most 64":         many.With("one.more", "1"),
		"values: the default config must have no":   {Values: map[string]Value{"a": "1"}},
		`kernel: "A" or one of its parameter names`: {Kernel: "A"},
		`kernel: "a" or one of its parameter names`: {Kernel: "a", Values: map[string]Value{"b": "c,d=e"}},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %s", c, err, want)
		}
	}
}

func TestSplitUndoesJoin(t *testing.T) {
	d, k := Config{Kernel: "d", Values: map[string]Value{"a": "1"}}, Config{Kernel: "c", Values: map[string]Value{"a": "2", "b": "x"}}
	pair := Join(d, k)
	if pair.Key() != "d+c:combine.a=2,combine.b=x,dispatch.a=1" {
		t.Errorf("joined %s", pair.Key())
	}
	if x, y, err := Split(pair); err != nil || x.Key() != d.Key() || y.Key() != k.Key() {
		t.Errorf("split into %s and %s, %v", x.Key(), y.Key(), err)
	}
	for want, c := range map[string]Config{
		`config: kernel "d" is not a pair`:                 d,
		`config: parameter "a" of a pair needs the prefix`: {Kernel: "d+c", Values: map[string]Value{"a": "1"}},
	} {
		if _, _, err := Split(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", c.Key(), err)
		}
	}
}
