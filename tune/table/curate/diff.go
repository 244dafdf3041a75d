package curate

import (
	"reflect"

	"github.com/epbench/epbench/tune/table"
)

// Kind says how two tables differ over an interval of token counts.
type Kind string

const (
	Added    Kind = "added"    // only the second table has a row
	Removed  Kind = "removed"  // only the first table has a row
	Config   Kind = "config"   // different configs
	Evidence Kind = "evidence" // same config, different evidence
)

// Difference is one interval of token counts on which two tables differ.
type Difference struct {
	Key  table.Key
	Lo   int
	Hi   int // inclusive
	Kind Kind
	A, B *table.Row
}

// Diff returns the intervals on which two tables differ, sorted by key and tokens.
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
