package declare

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// conditionsOf returns the conditions and macros of a declaration, such as count=receiver or EP_ROWS=rows without
// EP_ROWS=.
func conditionsOf(f Declaration) (out []string) {
	for word := range strings.FieldsSeq(f.entry + " " + f.macros + " " + f.places) {
		condition, what, ok := strings.Cut(word, "?")
		if !ok {
			condition, what = "", word
		}
		_, value, _ := strings.Cut(what, "=")
		out = append(out, strings.TrimPrefix(condition, "!"), value)
	}
	for condition := range f.states {
		out = append(out, condition)
	}
	for _, t := range f.ties {
		out = append(out, t.when)
		out = append(out, strings.Split(t.then, ",")...)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// TestConditionsNameParameters: each condition, tie and macro of a kernel names one of its parameters and a value that
// a sweep tries. A misspelt name would silently have the value 0.
func TestConditionsNameParameters(t *testing.T) {
	for _, f := range everywhere() {
		known := map[string][]ep.Value{}
		for _, q := range f.Kernel.Params {
			if _, twice := known[q.Name]; twice {
				t.Errorf("%s has %s twice", f.Kernel.Name, q.Name)
			}
			known[q.Name] = q.Values
		}
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

// TestRulesNameSettings: each word of a rule is a setting, and its values are those of parameters that some kernel has.
func TestRulesNameSettings(t *testing.T) {
	names := map[string]bool{"mode": true}
	for _, f := range everywhere() {
		for _, q := range f.Kernel.Params {
			names[q.Name] = true
		}
	}
	all := slices.Concat(piecesLL, dispatchRulesLL, combineRulesLL, combineStartsLL, dispatchRulesFinal, dispatchStartsFinal, combineStartsFinal,
		dispatchRulesRank, dispatchStartsRank, combineRulesRank, combineRulesMasked)
	s := settingOf(h200, variantProblem(ep.Pair, ep.FP8))
	for _, r := range all {
		for word := range strings.FieldsSeq(r.when) {
			rule{when: word}.holds(s) // panics if no setting has the name
		}
		for _, v := range strings.Split(r.list, ",") {
			if name, _, given := strings.Cut(v, "="); given && !names[name] || !given && v != "" {
				t.Errorf("%+v: no kernel has the parameter of %q", r, v)
			}
		}
	}
}
