package table

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// twoBuilds returns a table with a row of class even by a kernel that has changed, and a row
// for all routings by a kernel that has not.
func twoBuilds() (*Table, Host) {
	changed, same := testRow(ep.Even, 0, 64, 128), testRow(ep.AllRoutings, 0, 64, 256)
	changed.Config.Kernel, changed.ABI = "old", "old=1"
	same.Config.Kernel, same.ABI = "same", "same=1"
	t := testTable(changed, same)
	t.Header.ABI, t.Header.Fallback = "old=1,same=1", []string{"routing"}
	return t, Host{Machine: testMachine, ABI: "new=1,old=2,same=1"}
}

func TestRowOfOlderBuildAnswersOnRequestOnly(t *testing.T) {
	tab, host := twoBuilds()
	r := tab.Resolve(host, testKey(ep.Even).Problem(64))
	if a := r.Lookup(10, ep.Even); a.Config.Kernel != "same" || a.Reason != Fallback || a.OtherKernels {
		t.Errorf("the row of the kernel that stayed should answer: %+v", a)
	}
	if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, "1 of 2 rows were measured with other builds") {
		t.Errorf("notes %q", notes)
	}
	host.OtherKernels = true
	if a := tab.Resolve(host, testKey(ep.Even).Problem(64)).Lookup(10, ep.Even); a.Config.Kernel != "same" {
		t.Errorf("a row of an older build answers before one of this build: %+v", a)
	}
	tab.Header.Fallback = nil
	if a := tab.Resolve(host, testKey(ep.Even).Problem(64)).Lookup(10, ep.Even); a.Config.Kernel != "old" || !a.OtherKernels || a.Verified {
		t.Errorf("an accepted row of an older build: %+v", a)
	}
	host.OtherKernels = false
	if a := tab.Resolve(host, testKey(ep.Even).Problem(64)).Lookup(10, ep.Even); a.Row != nil {
		t.Errorf("a row of an older build answered unasked: %+v", a)
	}
}

// A row without a build has the build of the header. A row that keeps the default needs no
// kernel.
func TestRowWithoutBuild(t *testing.T) {
	tab, host := twoBuilds()
	tab.Rows[0].ABI = ""
	if n := tab.OtherBuilds(host); n != 1 {
		t.Errorf("%d rows of other builds, want the one that the header makes old", n)
	}
	tab.Rows[0].Config, tab.Rows[0].Default = ep.Config{}, true
	if n := tab.OtherBuilds(host); n != 0 {
		t.Errorf("%d rows of other builds; a default launches no kernel of the table", n)
	}
	if err := tab.Refusal(Host{Machine: testMachine, ABI: "w1"}, testKey(ep.Even).Problem(64)); err != nil {
		t.Errorf("a table with a default row is refused: %v", err)
	}
}
