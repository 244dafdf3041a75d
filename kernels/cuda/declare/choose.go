package declare

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// holds reports whether a condition such as "mode=split" is true of a config. The empty condition always is.
func holds(c ep.Config, condition string) bool {
	name, value, _ := strings.Cut(condition, "=")
	return c.Str(name) == value
}

// chosen returns the words of a list whose conditions hold. "mode=split?WORD" has a condition, and "!mode=split?WORD"
// its opposite.
func chosen(c ep.Config, list string) (out []string) {
	for word := range strings.FieldsSeq(list) {
		condition, what, ok := strings.Cut(word, "?")
		if !ok {
			condition, what = "", word
		}
		if asked, not := strings.CutPrefix(condition, "!"); holds(c, asked) != not {
			out = append(out, what)
		}
	}
	return out
}

// defines returns the macros of a config (NAME=VALUE) that f.macros lists.
func (f Declaration) defines(c ep.Config) (out []string) {
	for _, macro := range chosen(c, f.macros) {
		name, param, _ := strings.Cut(macro, "=")
		param, words, isWord := strings.Cut(param, "=")
		value := c.Int(param)
		switch {
		case param == "":
			value = 1
		case isWord:
			value = slices.Index(strings.Split(words, "|"), c.Str(param)) + 1
		}
		out = append(out, Define(name, value))
	}
	return out
}

// with returns c with the values of a list such as "mode=split,wait_sms=5/8". The fraction means five eighths of the
// value of sms.
func with(c ep.Config, list string) ep.Config {
	c = ep.Config{Kernel: c.Kernel, Values: maps.Clone(c.Values)}
	if c.Values == nil {
		c.Values = map[string]ep.Value{}
	}
	for v := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(v, "=")
		if part, of, ok := strings.Cut(value, "/"); ok {
			n, _ := ep.Value(part).Int()
			d, _ := ep.Value(of).Int()
			value = strconv.Itoa(c.Int("sms") * n / d)
		}
		c.Values[name] = ep.Value(value)
	}
	return c
}

// each returns the list `base` with each of several lists after it, whose values count.
func each(base string, lists ...string) (out []string) {
	for _, list := range lists {
		out = append(out, base+","+list)
	}
	return out
}

// A setting is what the values of a default config depend on.
type setting struct {
	ep.Problem
	sms int // that a rank may use
}

// longTokens is the largest token count of a short call, in which all warps first send and then receive.
const longTokens = 256

func (s setting) long() bool { return s.Tokens > longTokens }

func (s setting) reduced() bool { return s.Precision == ep.Reduced }

// config returns a config of f in which all SMs that a rank may use work, and which has the values of a list.
func (f Declaration) config(m ep.Machine, p ep.Problem, list string) ep.Config {
	c := ep.Config{Kernel: f.Kernel.Name, Values: map[string]ep.Value{}}
	for _, q := range f.Kernel.Params {
		c.Values[q.Name] = q.Default
	}
	c.Values["sms"] = ep.Value(strconv.Itoa(fastSMs(m, p)))
	return with(c, list)
}

// completed returns f with those functions of its kernel that return configs.
func (f Declaration) completed() Declaration {
	configOf := func(list func(setting) string) func(ep.Machine, ep.Problem) ep.Config {
		if list == nil {
			return nil
		}
		return func(m ep.Machine, p ep.Problem) ep.Config { return f.config(m, p, list(setting{p, fastSMs(m, p)})) }
	}
	f.Kernel.Default, f.Kernel.Split = configOf(f.values), configOf(f.split)
	if f.split != nil {
		f.Kernel.Overlapped = overlapped
	}
	if f.starts == nil {
		return f
	}
	f.Kernel.Starts = func(m ep.Machine, p ep.Problem) (out []ep.Config) {
		for _, list := range f.starts(setting{p, fastSMs(m, p)}) {
			out = append(out, f.config(m, p, list))
		}
		return out
	}
	return f
}

// overlapped returns c with pdl=1. In a pair, the combine then starts while the dispatch still runs. On 4 H200, with 1
// and 8 tokens, pairs took 9 to 15 % less time.
func overlapped(c ep.Config) ep.Config { return c.With("pdl", "1") }

// split returns a list for mode=split, with as many blocks in each launch. `needs` lists further values.
func split(base, needs string) string { return base + ",mode=split," + needs + ",recv_sms=1/1" }
