package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/table"
)

// SetFallback is a copy of a table with other fallback fields: the key fields that may
// differ when no row matches exactly, in this order. An error names a field that must
// match.
func SetFallback(t *table.Table, fields []string) (*table.Table, error) {
	out := *t
	out.Header.Fallback = slices.Clone(fields)
	out.Rows = slices.Clone(t.Rows)
	return &out, out.Seal()
}
