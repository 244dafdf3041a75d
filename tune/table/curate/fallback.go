package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/table"
)

// Relax is a table whose look-ups may give up these fields, in this order, before they
// answer with the default. An error names a field that may not be given up.
func SetFallback(t *table.Table, fields []string) (*table.Table, error) {
	out := *t
	out.Header.Fallback = slices.Clone(fields)
	out.Rows = slices.Clone(t.Rows)
	return &out, out.Seal()
}
