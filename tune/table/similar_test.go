package table

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func similarMachine() ep.Machine {
	m := testMachine
	m.Backend, m.Name, m.PCIID, m.Memory = "cuda", "other GPU", "10de:2330", m.Memory/2+1<<30
	return m
}

func TestSimilar(t *testing.T) {
	here, there := similarMachine(), similarMachine()
	there.PCIID, there.Memory = "10de:2335", 2*here.Memory
	if !here.Similar(there) || here.Similar(here) {
		t.Error("another GPU of the same architecture and link must be similar, and the machine itself must not")
	}
	for name, change := range map[string]func(*ep.Machine){
		"backend": func(m *ep.Machine) { m.Backend = "deepep" },
		"arch":    func(m *ep.Machine) { m.Arch = "sm_100" },
		"link":    func(m *ep.Machine) { m.Link = "pcie" },
		"sms":     func(m *ep.Machine) { m.SMs++ },
		"no GPU":  func(m *ep.Machine) { m.PCIID = "" },
	} {
		other := there
		if change(&other); here.Similar(other) {
			t.Errorf("%s: similar to %s", name, other.Key())
		}
	}
}

func TestRowOfOtherMachineAnswersOnRequestOnly(t *testing.T) {
	theirs, ours := testTable(testRow(ep.Even, 0, 64, 128)), testTable(testRow(ep.AllRoutings, 0, 16, 256))
	here, there := similarMachine(), similarMachine()
	there.PCIID = "10de:2335"
	theirs.Header.Machine, ours.Header.Machine = there, here
	theirs.Header.Fallback, ours.Header.Fallback = nil, []string{"routing"}
	set := Overlay(Source{Name: "ours", Table: ours}, Source{Name: "theirs", Table: theirs})
	host := Host{Machine: here, ABI: ours.Header.ABI}
	p := testKey(ep.Even).Problem(64)
	if a := set.Resolve(host, p).Lookup(40, ep.Even); a.Row != nil {
		t.Errorf("a row of another machine answered unasked: %+v", a)
	}
	host.OtherMachines = true
	r := set.Resolve(host, p)
	if a := r.Lookup(40, ep.Even); a.Row == nil || a.Source != "theirs" || !a.OtherMachine || a.Verified {
		t.Errorf("an accepted row of another machine: %+v", a)
	}
	if a := r.Lookup(10, ep.Even); a.Source != "ours" || a.OtherMachine {
		t.Errorf("a row of this machine, although it is a fallback, must answer before a row of another machine: %+v", a)
	}
	if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, "theirs: of another machine, other GPU") {
		t.Errorf("notes %q", notes)
	}
	host.Machine.Link = "pcie"
	if a := set.Resolve(host, p).Lookup(40, ep.Even); a.Row != nil || a.Reason != Refused {
		t.Errorf("a row of another link: %+v", a)
	}
}
