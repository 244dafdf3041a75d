package table

import (
	"errors"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// twoBuilds returns a table in which only the row for all routings has the host's build.
func twoBuilds() (*Table, Host) {
	changed, same := testRow(ep.Even, 0, 64, 128), testRow(ep.AllRoutings, 0, 64, 256)
	changed.Config.Kernel, changed.ABI = "old", "old=1"
	same.Config.Kernel, same.ABI = "same", "same=1"
	t := testTable(changed, same)
	t.Header.ABI, t.Header.Fallback = "old=1,same=1", []string{"routing"}
	return t, Host{Machine: testMachine, ABI: "new=1,old=2,same=1"}
}

func TestRowOfEarlierBuildAnswers(t *testing.T) {
	tab, host := twoBuilds()
	ask := func() (Answer, string) {
		r := tab.Resolve(host, testKey(ep.Even).Problem(64))
		return *r.Lookup(10, ep.Even), strings.Join(r.Notes(), "; ")
	}
	if a, notes := ask(); a.Config.Kernel != "old" || a.Reason != Exact || !a.EarlierBuild || a.Verified || !strings.Contains(notes, "1 of 2 rows were measured with an earlier build") {
		t.Errorf("%+v, notes %q", a, notes)
	}
	host.OnlyThisBuild = true
	if a, notes := ask(); a.Config.Kernel != "same" || a.Reason != Fallback || a.EarlierBuild || !strings.Contains(notes, "1 of 2 rows need other kernels") {
		t.Errorf("%+v, notes %q", a, notes)
	}
	host.OnlyThisBuild, host.ABI = false, "new=1,old=2.2,same=1"
	if a, notes := ask(); a.Config.Kernel != "same" || a.EarlierBuild || !strings.Contains(notes, "1 of 2 rows need other kernels") {
		t.Errorf("a row of another revision: %+v, notes %q", a, notes)
	}
	tab.Header.Fallback = nil
	if a, _ := ask(); a.Row != nil {
		t.Errorf("a row of another revision answered: %+v", a)
	}
}

func TestRowOfThisBuildComesFirst(t *testing.T) {
	tab, host := twoBuilds()
	tab.Rows = tab.Rows[:1]
	newer := testTable(testRow(ep.Even, 0, 64, 512))
	newer.Header.ABI, newer.Rows[0].Config.Kernel, newer.Rows[0].ABI = "old=2", "old", "old=2"
	for _, set := range []*Set{Overlay(Source{Name: "a", Table: tab}, Source{Name: "b", Table: newer}), Overlay(Source{Name: "b", Table: newer}, Source{Name: "a", Table: tab})} {
		if a := set.Resolve(host, testKey(ep.Even).Problem(64)).Lookup(10, ep.Even); a.Source != "b" || a.EarlierBuild {
			t.Errorf("%s answers, earlier build %v", a.Source, a.EarlierBuild)
		}
	}
}

func TestIllegalRowOfEarlierBuildGivesWay(t *testing.T) {
	tab, host := twoBuilds()
	host.Check = func(_ ep.Machine, p ep.Problem, c ep.Config) error {
		if c.Kernel == "old" && p.Tokens > 8 {
			return errors.New("old takes up to 8 tokens")
		}
		return nil
	}
	p := testKey(ep.Even).Problem(64)
	for tokens, want := range map[int]string{8: "old", 9: "same", 64: "same"} {
		if a := tab.Resolve(host, p).Lookup(tokens, ep.Even); a.Config.Kernel != want {
			t.Errorf("%d tokens: %+v, want %s", tokens, a, want)
		}
		narrow, _ := Overlay(Source{Table: tab}).For(host, p)
		if a := narrow.Lookup(testKey(ep.Even), tokens); a.Config.Kernel != want {
			t.Errorf("looked up, %d tokens: %+v, want %s", tokens, a, want)
		}
	}
	tab.Header.Fallback = nil
	if a := tab.Resolve(host, p).Lookup(9, ep.Even); a.Reason != Illegal || !a.Config.IsDefault() {
		t.Errorf("no row is left: %+v", a)
	}
}

// TestEarlierConfigIsSpelledAnew: Host.Current also converts a row that a receipt certified.
func TestEarlierConfigIsSpelledAnew(t *testing.T) {
	tab, host := twoBuilds()
	host.Current = func(c ep.Config) ep.Config {
		if c.Kernel == "old" {
			c.Kernel = "new"
		}
		return c
	}
	r := tab.Resolve(host, testKey(ep.Even).Problem(64))
	if a := r.Lookup(10, ep.Even); a.Config.Kernel != "new" || a.Row.Config.Kernel != "old" {
		t.Errorf("%+v", a)
	}
	if a := r.Lookup(10, ep.HotRank); a.Config.Kernel != "same" {
		t.Errorf("a row of this build was changed: %+v", a)
	}
	tab.Rows[0].ABI = tab.Rows[1].ABI
	if a := tab.Resolve(host, testKey(ep.Even).Problem(64)).Lookup(10, ep.Even); a.Config.Kernel != "new" {
		t.Errorf("a certified row keeps the config of an earlier build: %+v", a)
	}
}

func TestRowWithoutBuild(t *testing.T) {
	tab, host := twoBuilds()
	tab.Rows[0].ABI = ""
	if n, refused := tab.Builds(host); n != 1 || refused != 0 {
		t.Errorf("%d rows of earlier builds, want 1, whose build is in the header; %d refused", n, refused)
	}
	tab.Rows[0].Config, tab.Rows[0].Default = ep.Config{}, true
	if n, refused := tab.Builds(host); n+refused != 0 {
		t.Errorf("%d rows of other builds; a default launches no kernel of the table", n+refused)
	}
	if err := tab.Refusal(Host{Machine: testMachine, ABI: "w1"}, testKey(ep.Even).Problem(64)); err != nil {
		t.Errorf("a table with a default row is refused: %v", err)
	}
}
