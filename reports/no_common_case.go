package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// whyNoCommonCase says why two runs have no case in common. If cases differ only in the mode, it names the two modes.
// Otherwise it names the fields in which the runs share no value.
func whyNoCommonCase(a, b *Loaded, o CompareOptions) string {
	inB := indexCases(b.Cases, true)
	for _, x := range a.Cases {
		if y := inB.match(x); y != nil && !o.Allow["mode"] {
			return fmt.Sprintf("; mode: %s against %s (--allow mode compares them anyway)", x.Problem.Mode, y.Problem.Mode)
		}
	}
	out := ""
	for _, f := range problemFields {
		ours, theirs := f.values(a.Cases), f.values(b.Cases)
		common := slices.ContainsFunc(ours, func(v string) bool { return slices.Contains(theirs, v) })
		if !common && len(ours) > 0 && len(theirs) > 0 && f.column.Name != "seed" {
			out += "; A has " + f.say(strings.Join(ours, ", ")) + ", B has " + f.say(strings.Join(theirs, ", "))
		}
	}
	return out
}

func (f problemField) values(cases []*Case) (out []string) {
	for _, c := range cases {
		if v := f.cell(c).Text; v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func (f problemField) say(value string) string {
	if one, counts := strings.CutPrefix(f.phrase, "%s "); counts && value == "1" && strings.HasSuffix(one, "s") {
		return ep.Count(1, strings.TrimSuffix(one, "s"))
	}
	return fmt.Sprintf(f.phrase, value)
}
