package pack

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestUncoveredMemoryIsNoted: a pack with rows for only some token counts notes that its default configs need most of
// the memory.
func TestUncoveredMemoryIsNoted(t *testing.T) {
	const note = "only for the default configs of token counts or routings without a row"
	noted := func(p *Pack) bool {
		return strings.Contains(strings.Join(p.Notes, "\n"), note)
	}
	rows := func(lo int) *Pack {
		var out []table.Row
		for _, class := range ep.Classes() {
			for _, r := range []table.Row{row(ep.Dispatch, lo, shape.MaxTokens, dispatchLL, 1), row(ep.Combine, lo, shape.MaxTokens, combineLL, 1)} {
				r.Key.Routing = class
				out = append(out, r)
			}
		}
		return build(t, nil, out...)
	}
	few, all, none := rows(100), rows(1), build(t, nil)
	if !noted(few) || noted(all) || noted(none) {
		t.Errorf("noted with rows from 100 tokens on: %t, from 1 on: %t, without rows: %t; want true, false, false", noted(few), noted(all), noted(none))
	}
	if few.HeapBytes(1) < 2*all.HeapBytes(1) {
		t.Errorf("%d bytes with rows from 100 tokens on, %d with rows from 1 on", few.HeapBytes(1), all.HeapBytes(1))
	}
}
