package declare

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// holds reports whether a condition such as "mode=split" is true of a config. The empty condition is true of
// every config.
func holds(c ep.Config, condition string) bool {
	name, value, _ := strings.Cut(condition, "=")
	return c.Str(name) == value
}

// chosen returns the words of a list that apply to a config. "mode=split?WORD" means WORD if mode is split, and nothing
// otherwise. "!mode=split?WORD" means WORD if mode is not split.
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

// placesRows reports whether a config writes rows directly to the outputs of other ranks. See f.places.
func (f Declaration) placesRows(c ep.Config) bool {
	return f.places == "always" || f.places != "" && holds(c, f.places)
}

// defines returns the macros of a config as NAME=VALUE. First comes EP_THREADS, then come those that f.macros lists.
func (f Declaration) defines(c ep.Config) (out []string) {
	for _, macro := range chosen(c, "EP_THREADS=threads "+f.macros) {
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

// with returns c with the values of a list such as "mode=split,wait_sms=5/8". 5/8 means five eighths of sms.
// A list that sets sms must set it before the fraction.
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

// A setting maps names to properties of a problem and a machine, from which default values are chosen. A property that
// can be true or false is 1 or 0.
type setting map[string]int

func settingOf(m ep.Machine, p ep.Problem) setting {
	sms := fastSMs(m, p)
	return setting{
		"sms":    sms, // number of SMs that a rank may use
		"tokens": p.Tokens, "ranks": p.Ranks, "topk": p.TopK, "experts": p.Experts,
		"bf16": Bit(p.Dispatch == ep.BF16), "fp8": Bit(p.Dispatch == ep.FP8), "reduced": Bit(p.Precision == ep.Reduced),
		"bulk":     Bit(!before90(m.Arch)), // the GPU has bulk copies
		"dispatch": Bit(p.Op == ep.Dispatch), "marks-fit": Bit(markBytes(p) <= marksShared),
		"long": Bit(p.Tokens > 256), // in shorter calls, all warps first send and then receive
		// A limited call may use only about half of a GPU's SMs. Calls of up to 16 tokens do not count as limited,
		// because the same values suit them on few and on many SMs.
		"limited": Bit(sms <= 64 && p.Tokens > 16),
	}
}

// A rule gives the values in `list` to a setting in which all words of `when` are true. An example of `when` is
// "ranks>2 !sms>32 long".
type rule struct{ when, list string }

// holds reports whether all words of r.when are true. A word without a bound is true if its value in s is above 0. At
// an unknown word it panics, even if an earlier word is false.
func (r rule) holds(s setting) bool {
	all := true
	for word := range strings.FieldsSeq(r.when) {
		asked, not := strings.CutPrefix(word, "!")
		name, bound, bounded := strings.Cut(asked, ">")
		n, isNumber := ep.Value(bound).Int()
		have, ok := s[name]
		if !ok || bounded != isNumber {
			panic("declare: the rule word " + word + " names no setting, or its bound is no number")
		}
		all = all && have > n != not
	}
	return all
}

// rules set values of parameters. The method `list` joins the values of all rules that hold. If several of these rules
// set a parameter, the last one counts.
type rules []rule

func (r rules) lists(s setting) (out []string) {
	for _, one := range r {
		if one.holds(s) {
			out = append(out, one.list)
		}
	}
	return out
}

func (r rules) list(s setting) string { return strings.Join(r.lists(s), ",") }

// with returns r with further rules after it.
func (r rules) with(more ...rule) rules { return slices.Concat(r, more) }

// when returns r with the words of `further` added to the words of each rule.
func (r rules) when(further string) (out rules) {
	for _, one := range r {
		out = append(out, rule{further + " " + one.when, one.list})
	}
	return out
}

// plus returns r with the values of a list after the values of each rule.
func (r rules) plus(list string) (out rules) {
	for _, one := range r {
		out = append(out, rule{one.when, one.list + "," + list})
	}
	return out
}

// each returns a rule without a condition for each list of `further`: the values of `base`, then those of the list.
func each(base string, further ...string) (out rules) {
	for _, list := range further {
		out = append(out, rule{"", base + "," + list})
	}
	return out
}

// split returns a function that gives the values for mode=split. The sending and the receiving kernel have the same
// number of blocks. `needs` lists other values that mode=split requires.
func (r rules) split(needs string) func(setting) string {
	return r.with(rule{"", "mode=split," + needs + ",recv_sms=1/1"}).list
}

// over returns a function that gives one list of values for each rule of r that holds: the values of `base`, then those
// of the rule.
func (r rules) over(base rules) func(setting) []string {
	return func(s setting) (out []string) {
		for _, list := range r.lists(s) {
			out = append(out, base.list(s)+","+list)
		}
		return out
	}
}

// config returns a config of f with the values of a list. Unless the list sets sms, the config has a block on each SM
// that a rank may use.
func (f Declaration) config(m ep.Machine, p ep.Problem, list string) ep.Config {
	c := ep.Config{Kernel: f.Kernel.Name, Values: map[string]ep.Value{}}
	for _, q := range f.Kernel.Params {
		c.Values[q.Name] = q.Default
	}
	c.Values["sms"] = ep.Value(strconv.Itoa(fastSMs(m, p)))
	return with(c, list)
}

// completed returns f with the functions Default, Split, Overlapped and Starts of its kernel.
func (f Declaration) completed() Declaration {
	configOf := func(list func(setting) string) func(ep.Machine, ep.Problem) ep.Config {
		if list == nil {
			return nil
		}
		return func(m ep.Machine, p ep.Problem) ep.Config { return f.config(m, p, list(settingOf(m, p))) }
	}
	f.Kernel.Default, f.Kernel.Split = configOf(f.values), configOf(f.split)
	if f.split != nil {
		f.Kernel.Overlapped = overlapped
	}
	if f.starts == nil {
		return f
	}
	f.Kernel.Starts = func(m ep.Machine, p ep.Problem) (out []ep.Config) {
		for _, list := range f.starts(settingOf(m, p)) {
			out = append(out, f.config(m, p, list))
		}
		return out
	}
	return f
}

// overlapped returns c with pdl=1. In a pair, the combine then starts while the dispatch still runs. On 4 H200, with 1
// and 8 tokens, pairs took 9 to 15 % less time.
func overlapped(c ep.Config) ep.Config { return c.With("pdl", "1") }
