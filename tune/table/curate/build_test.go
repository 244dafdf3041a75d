package curate

import (
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// A row of an older build gives way where a later build was measured, and stays, by its
// build, where none was.
func TestMergeOfBuilds(t *testing.T) {
	old, next := sealed(row(ep.Even, 0, 64, 128)), sealed(row(ep.Even, 0, 8, 256))
	old.Header.ABI, next.Header.ABI = "k=1,other=1", "k=2"
	old.Rows[0].Config.Kernel, next.Rows[0].Config.Kernel = "k", "k"
	old.Rows[0].Evidence.Tokens, next.Rows[0].Evidence.Tokens = []int{8, 64}, []int{8}
	old.Rows[0].Evidence.Gain = 9
	next.Header.Created = old.Header.Created.Add(time.Hour)
	got, _, err := Merge(old, next, Rule{Band: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if got.Header.ABI != "k=2,other=1" {
		t.Errorf("header %q", got.Header.ABI)
	}
	if len(got.Rows) != 2 || got.Rows[0].ABI != "k=2" || got.Rows[1].ABI != "k=1" {
		t.Errorf("rows %+v", got.Rows)
	}
}
