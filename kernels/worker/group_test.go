package worker

import (
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// fakeGroup returns a group without a command, and a channel that is closed when the group ends.
func fakeGroup(t *testing.T) (g *group, ended chan struct{}) {
	t.Helper()
	l, address, err := listen(Loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(addressEnv, address)
	ended = make(chan struct{})
	g = newGroup(l, sync.OnceFunc(func() { close(ended) }))
	t.Cleanup(g.close)
	go g.gate.accept(l, g.greet)
	return g, ended
}

func TestClosedGroup(t *testing.T) {
	g, _ := fakeGroup(t)
	greeted := make(chan error, 1)
	go func() {
		_, _, err := connectAs("1", g.token)
		greeted <- err
	}()
	g.waitFor(t, 1)
	waited := make(chan bool, 1)
	go func() { waited <- g.waitForRankZero() }()
	g.close()
	if <-waited {
		t.Error("waitForRankZero reports that rank 0 has connected")
	}
	if err := <-greeted; err == nil {
		t.Error("rank 1 was admitted without rank 0")
	}
	if err := g.add(&member{Greeting: Greeting{Rank: 0, Ranks: 2}}); err == nil {
		t.Error("a rank was added to a closed group: nobody closes its connection")
	}
}

// TestCalm: an answer of rank 0 clears a failure, but not the end of a process.
func TestCalm(t *testing.T) {
	g, ended := fakeGroup(t)
	m := &member{Greeting: Greeting{Rank: 1, Ranks: 2}}
	g.fail(m, Trouble{Status: ep.Illegal, Reason: "sms: 3"}, time.Hour)
	g.clearTrouble(0)
	if g.firstTrouble() != nil {
		t.Errorf("the failure is not cleared: %+v", g.firstTrouble())
	}
	g.fail(m, Trouble{Status: ep.LaunchFailed, Reason: "no kernel image"}, time.Hour)
	g.rankGone(m)
	g.clearTrouble(0)
	<-ended
	if w := g.firstTrouble(); w == nil || w.Status != ep.LaunchFailed {
		t.Errorf("a rank that is gone: %+v, want the failure that it reported", w)
	}
}

// TestLateTrouble: a failure of an answered request is ignored. A failure without a request number counts always.
func TestLateTrouble(t *testing.T) {
	for id, counts := range map[int64]bool{4: false, 5: false, 6: true, 0: true} {
		g, _ := fakeGroup(t)
		g.clearTrouble(5)
		g.fail(&member{Greeting: Greeting{Rank: 1, Ranks: 2}}, Trouble{ID: id, Status: ep.Illegal, Reason: "sms: 3"}, time.Hour)
		if got := g.firstTrouble() != nil; got != counts {
			t.Errorf("request %d after the answer to 5: trouble %v, want %v", id, got, counts)
		}
	}
}

// TestReasonAfterLoss: after a disconnection and another rank's failure, the reason names both.
func TestReasonAfterLoss(t *testing.T) {
	g, ended := fakeGroup(t)
	ofRank := func(rank int) *member { return &member{Greeting: Greeting{Rank: rank, Ranks: 3}} }
	g.rankGone(ofRank(2))
	g.fail(ofRank(1), Trouble{Status: ep.LaunchFailed, Reason: "no kernel image"}, time.Hour)
	g.fail(ofRank(1), Trouble{Status: ep.Illegal, Reason: "later"}, time.Hour)
	g.clearTrouble(0)
	<-ended
	if w, want := g.firstTrouble(), "rank 1 of 3 (host , pid 0): no kernel image; rank 2 of 3 (host , pid 0): is gone"; w == nil || w.Status != ep.LaunchFailed || w.Reason != want {
		t.Errorf("%+v, want %q", w, want)
	}
}

// TestLate: after a hang, lateRanks names the rank without heartbeats, the only rank that does not wait, or the only
// rank in its step.
func TestLate(t *testing.T) {
	ofRank := func(rank int, heard time.Duration, b Beat) *member {
		return &member{Greeting: Greeting{Rank: rank, Ranks: 3}, heard: time.Now().Add(-heard), beat: b}
	}
	wait := Beat{Doing: "barrier", Waiting: true}
	for _, c := range []struct {
		want    string
		members []*member
	}{
		{"no rank has connected", nil},
		{"rank 2 of 3 (host , pid 0) has been silent for 9s", []*member{ofRank(0, 0, wait), ofRank(1, 0, Beat{Doing: "run"}), ofRank(2, 9*time.Second, wait)}},
		{"rank 1 of 3 (host , pid 0) is in dispatch while the others wait", []*member{ofRank(0, 0, wait), ofRank(1, 0, Beat{Doing: "dispatch"}), ofRank(2, 0, wait)}},
		{"rank 1 of 3 (host , pid 0) is in sleep", []*member{ofRank(0, 0, Beat{Doing: "all_to_all"}), ofRank(1, 0, Beat{Doing: "sleep"}), ofRank(2, 0, Beat{Doing: "all_to_all"})}},
		{"", []*member{ofRank(0, 0, Beat{Doing: "run"}), ofRank(1, 0, Beat{Doing: "run"}), ofRank(2, 0, Beat{Doing: "run"})}},
		{"2 of 3 ranks have connected", []*member{ofRank(0, 0, wait), ofRank(1, 0, wait)}},
		{"", []*member{ofRank(0, 0, wait), ofRank(1, 0, wait), ofRank(2, 0, wait)}},
	} {
		g := &group{members: map[int]*member{}}
		for _, m := range c.members {
			g.members[m.Rank] = m
		}
		if got := g.lateRanks(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestTwoGroups(t *testing.T) {
	a, _ := openLaunched(t, "honest", "idle")
	b, _ := openLaunched(t, "honest", "idle")
	if a.proc.group.listener.Addr().String() == b.proc.group.listener.Addr().String() || a.proc.group.token == b.proc.group.token {
		t.Error("two groups share an address or a token")
	}
	a.Close()
	openWorkload(t, b, ep.Dispatch)
}
