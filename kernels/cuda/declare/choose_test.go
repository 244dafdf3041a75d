package declare

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// conditionsOf returns the words of a declaration that name parameters. They are conditions such as count=receiver. Of
// a macro such as EP_ROWS=rows, it returns the part after the first equals sign.
func conditionsOf(f Declaration) (out []string) {
	for word := range strings.FieldsSeq(f.entry + " " + f.macros) {
		condition, what, ok := strings.Cut(word, "?")
		if !ok {
			condition, what = "", word
		}
		_, value, _ := strings.Cut(what, "=")
		out = append(out, strings.TrimPrefix(condition, "!"), value)
	}
	out = append(out, strings.TrimSuffix(f.places, "always"), f.follows)
	out = slices.AppendSeq(out, maps.Keys(f.states))
	for _, t := range f.ties {
		out = append(out, t.when)
		out = append(out, strings.Split(t.then, ",")...)
	}
	for _, former := range f.Kernel.Formerly {
		for name, value := range former.Values {
			out = append(out, name+"="+string(value))
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// valuesOf returns the values that a sweep tries for each parameter of a kernel.
func valuesOf(t *testing.T, f Declaration) map[string][]ep.Value {
	t.Helper()
	known := map[string][]ep.Value{}
	for _, q := range f.Kernel.Params {
		if _, twice := known[q.Name]; twice {
			t.Errorf("%s has %s twice", f.Kernel.Name, q.Name)
		}
		known[q.Name] = q.Values
	}
	return known
}

// TestConditionsNameParameters: each condition, tie, macro and former kernel in a declaration names one of its
// parameters and a value that a sweep tries. A misspelt name would silently have the value 0.
func TestConditionsNameParameters(t *testing.T) {
	for _, f := range everywhere() {
		known := valuesOf(t, f)
		for _, condition := range conditionsOf(f) {
			name, words, given := strings.Cut(condition, "=")
			if known[name] == nil {
				t.Errorf("%s has no parameter %s of %s", f.Kernel.Name, name, condition)
			}
			for word := range strings.SplitSeq(words, "|") {
				if given && !slices.Contains(known[name], ep.Value(word)) {
					t.Errorf("%s never has %s=%s", f.Kernel.Name, name, word)
				}
			}
		}
	}
}

// TestSourcesReadNames: a kernel's source reads each of its macros. If the entry point depends on a parameter, the
// source has an entry point for each value. The compiler does not notice a misspelt macro.
func TestSourcesReadNames(t *testing.T) {
	for _, f := range everywhere() {
		code, err := sources.Code(f.source)
		if err != nil {
			t.Fatal(err)
		}
		p := inLayoutOf(f.Kernel, variantProblem(f.Kernel.Op, ep.FP8))
		c := f.Kernel.DefaultConfig(h200, p)
		for _, q := range f.Kernel.Params {
			for _, v := range q.Values {
				names := []string{f.launch(p, c.With(q.Name, v)).Entry}
				for _, macro := range f.defines(c.With(q.Name, v)) {
					name, _, _ := strings.Cut(macro, "=")
					names = append(names, name)
				}
				for _, name := range names {
					if !strings.Contains(code, " "+name+" ") {
						t.Errorf("%s with %s=%s: %s does not contain %s", f.Kernel.Name, q.Name, v, f.source, name)
					}
				}
			}
		}
	}
}

// settings returns settings. Every rule holds in at least one of them.
func settings() (out []setting) {
	for _, sms := range []int{1, 31, 64, 132} {
		m := h200
		m.SMs = sms
		for _, tokens := range []int{1, 6, 20, 40, 100, 200, 300} {
			for _, ranks := range []int{1, 2, 4, 8} {
				for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
					for _, d := range []ep.DType{ep.BF16, ep.FP8} {
						p := variantProblem(op, d)
						p.Tokens, p.MaxTokens, p.Ranks, p.TopK = tokens, tokens, ranks, 4*ranks
						full := settingOf(m, p)
						p.Precision = ep.Reduced
						out = append(out, full, settingOf(m, p))
					}
				}
			}
		}
	}
	return out
}

// listsOf returns all lists of values that a declaration gives in a setting. A rule with a misspelt setting panics.
func listsOf(f Declaration, s setting) (out []string) {
	for _, list := range []func(setting) string{f.values, f.split} {
		if list != nil {
			out = append(out, list(s))
		}
	}
	if f.starts != nil {
		out = append(out, f.starts(s)...)
	}
	return out
}

// TestRulesNameParameters: the lists of values in a declaration name parameters of this declaration. A value is a
// number, a fraction, or a word that a sweep tries.
func TestRulesNameParameters(t *testing.T) {
	for _, f := range everywhere() {
		known, wrong := valuesOf(t, f), map[string]bool{}
		for _, s := range settings() {
			for _, list := range listsOf(f, s) {
				for word := range strings.SplitSeq(list, ",") {
					name, value, _ := strings.Cut(word, "=")
					number, _, _ := strings.Cut(value, "/")
					isWord := !slices.ContainsFunc(known[name], isNumber)
					wrong[word] = word != "" && !slices.Contains(known[name], ep.Value(value)) && (isWord || !isNumber(ep.Value(number)))
				}
			}
		}
		for word, bad := range wrong {
			if bad {
				t.Errorf("%s: a rule gives %s, which names no parameter or no value of it", f.Kernel.Name, word)
			}
		}
	}
}

// TestRuleWordsAreChecked: a rule with a misspelt word panics, even if an earlier word of the rule is false.
func TestRuleWordsAreChecked(t *testing.T) {
	s := setting{"long": 0, "ranks": 2}
	for _, when := range []string{"long lnog", "long ranks>=2", "!ranks>", "tokens>4"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the rule %q is accepted", when)
				}
			}()
			rule{when: when}.holds(s)
		}()
	}
}
