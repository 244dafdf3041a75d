package embedded

import (
	"testing"

	"github.com/epbench/epbench/tune/table"
)

// TestEmbeddedTablesAreWhole: every embedded table can be read, was not edited and names a machine with GPUs.
func TestEmbeddedTablesAreWhole(t *testing.T) {
	set, err := table.Open(table.Locations{Embedded: FS()})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range set.Warnings() {
		t.Error(w)
	}
	for _, s := range set.Sources() {
		if h := s.Table.Header; h.Edited || h.Machine.GPUs == 0 {
			t.Errorf("%s: edited %v, %d GPUs", s.Name, h.Edited, h.Machine.GPUs)
		}
	}
	t.Logf("%d embedded tables", len(set.Sources()))
}
