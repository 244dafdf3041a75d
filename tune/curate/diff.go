package curate

import (
	"fmt"
	"reflect"

	"github.com/epbench/epbench/tune/plan"
)

// Kind is how two tables differ over a stretch of tokens.
type Kind string

const (
	Added    Kind = "added"    // only the second table has a row
	Removed  Kind = "removed"  // only the first has
	Choice   Kind = "choice"   // they choose different configs
	Evidence Kind = "evidence" // same config, other evidence
)

// Difference is one stretch of token counts on which two tables differ.
type Difference struct {
	Key  plan.Key
	Lo   int
	Hi   int // inclusive
	Kind Kind
	A, B *plan.Row
}

// Diff lists what differs between two tables, by key and tokens.
func Diff(a, b *plan.Table) []Difference {
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

// kind is "" where both tables say the same on the same evidence.
func (s segment) kind() Kind {
	switch {
	case s.a == nil:
		return Added
	case s.b == nil:
		return Removed
	case !sameChoice(s.a, s.b):
		return Choice
	case !reflect.DeepEqual(s.a.Evidence, s.b.Evidence):
		return Evidence
	}
	return ""
}

// HeaderDiff lists the header fields that differ, as "field: a, b" lines.
func HeaderDiff(a, b plan.Header) []string {
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if p, q := fmt.Sprint(x.Field(i)), fmt.Sprint(y.Field(i)); p != q {
			out = append(out, fmt.Sprintf("%s: %s, %s", x.Type().Field(i).Tag.Get("json"), p, q))
		}
	}
	return out
}
