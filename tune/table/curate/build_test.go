package curate

import (
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

func TestMergeOfBuilds(t *testing.T) {
	old, next := sealed(row(ep.Even, 0, 64, 128)), sealed(row(ep.Even, 0, 8, 256))
	old.Header.ABI, next.Header.ABI = "k=1,other=1", "k=2"
	old.Rows[0].Config.Kernel, next.Rows[0].Config.Kernel = "k", "k"
	old.Rows[0].Evidence.Tokens, next.Rows[0].Evidence.Tokens = []int{8, 64}, []int{8}
	old.Rows[0].Evidence.Gain = 9
	next.Header.Created = old.Header.Created.Add(time.Hour)
	got, _ := mergedBy(t, old, next, Rule{Band: 0.01})
	if got.Header.ABI != "k=2,other=1" {
		t.Errorf("header %q", got.Header.ABI)
	}
	if len(got.Rows) != 2 || got.Rows[0].ABI != "k=2" || got.Rows[1].ABI != "k=1" {
		t.Errorf("rows %+v", got.Rows)
	}
}

func TestEarlierBuildGivesWayBetweenPoints(t *testing.T) {
	old, next := sealed(row(ep.Even, 0, 64, 128)), sealed(row(ep.Even, 0, 24, 256), row(ep.Even, 25, 128, 512))
	old.Header.ABI, next.Header.ABI = "k=1", "k=2"
	old.Rows[0].Config.Kernel, next.Rows[0].Config.Kernel, next.Rows[1].Config.Kernel = "k", "k", "k"
	old.Rows[0].Evidence.Tokens, next.Rows[0].Evidence.Tokens, next.Rows[1].Evidence.Tokens = []int{8, 32, 64}, []int{8}, []int{64}
	next.Header.Created = old.Header.Created.Add(time.Hour)
	got, _ := mergedBy(t, old, next, Rule{Band: 0.01})
	if len(got.Rows) != 2 || got.Rows[0].ABI != "k=2" || got.Rows[1].ABI != "k=2" || got.Rows[0].Hi+1 != got.Rows[1].Lo || got.Rows[1].Hi != 128 {
		t.Errorf("rows %+v", got.Rows)
	}
}

func TestLaterBuildHoldsToItsEnd(t *testing.T) {
	old, next := sealed(row(ep.Even, 0, 128, 128)), sealed(row(ep.Even, 0, 64, 256))
	old.Header.ABI, next.Header.ABI = "k=1", "k=2"
	old.Rows[0].Config.Kernel, next.Rows[0].Config.Kernel = "k", "k"
	old.Rows[0].Evidence.Tokens, next.Rows[0].Evidence.Tokens = []int{8, 100}, []int{8}
	next.Header.Created = old.Header.Created.Add(time.Hour)
	got, overlaps := mergedBy(t, old, next, Rule{Band: 0.01})
	if len(got.Rows) != 2 || got.Rows[0].ABI != "k=2" || got.Rows[0].Hi != 64 || got.Rows[1].ABI != "k=1" || got.Rows[1].Hi != 128 {
		t.Errorf("rows %+v", got.Rows)
	}
	if len(overlaps) != 1 || overlaps[0].Effect != Replaced || overlaps[0].Hi != 64 {
		t.Errorf("overlaps %+v", overlaps)
	}
}
