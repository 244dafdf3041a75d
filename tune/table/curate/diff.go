package curate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/table"
)

// Kind says how two tables differ over an interval of token counts.
type Kind string

const (
	Added    Kind = "added"    // only the second table has a row
	Removed  Kind = "removed"  // only the first table has a row
	Config   Kind = "config"   // both have a row, with different configs
	Evidence Kind = "evidence" // both have a row with the same config, but with different evidence
)

// Difference is one interval of token counts on which two tables differ.
type Difference struct {
	Key  table.Key
	Lo   int
	Hi   int // inclusive
	Kind Kind
	A, B *table.Row
}

// Diff returns the intervals on which two tables differ, by key and tokens.
func Diff(a, b *table.Table) []Difference {
	var out []Difference
	for _, g := range groups(a, b) {
		for _, s := range g.cut() {
			if k := s.kind(); k != "" {
				out = append(out, Difference{s.key, s.lo, s.hi, k, s.a, s.b})
			}
		}
	}
	return out
}

// kind returns how the two tables differ in a segment, "" if they do not.
func (s segment) kind() Kind {
	switch {
	case s.a == nil:
		return Added
	case s.b == nil:
		return Removed
	case !sameConfig(s.a, s.b):
		return Config
	case !reflect.DeepEqual(s.a.Evidence, s.b.Evidence):
		return Evidence
	}
	return ""
}

// HeaderDiff returns a line for each header field that differs: the field, its value in a, and its
// value in b.
func HeaderDiff(a, b table.Header) []string {
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
		p, q := fmt.Sprint(x.Field(i)), fmt.Sprint(y.Field(i))
		if p == q {
			continue
		}
		text := p + ", " + q
		if strings.Contains(text, listSeparator) {
			text = listDiff(strings.Split(p, listSeparator), strings.Split(q, listSeparator))
		}
		out = append(out, name+": "+text)
	}
	return out
}

// listDiff names the elements that only one of two lists has, and counts the elements that both
// have. Lists such as the hashes of merged runs are too long to print in full.
func listDiff(a, b []string) string {
	onlyA, onlyB := without(a, b), without(b, a)
	return fmt.Sprintf("%d in both, only a: %s; only b: %s", len(a)-len(onlyA), someOf(onlyA), someOf(onlyB))
}

// without returns the elements of a list that another list does not have.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// someOf returns the first few elements of a list as text.
func someOf(list []string) string {
	const few = 3
	switch {
	case len(list) == 0:
		return "none"
	case len(list) <= few:
		return strings.Join(list, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:few], " "), len(list)-few)
}
