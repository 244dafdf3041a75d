package table

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// exchange is an all-gather of digests between goroutines, one for each rank.
type exchange struct {
	wait sync.WaitGroup
	all  []Digest
}

func (x *exchange) gather(rank int, d Digest) []Digest {
	x.all[rank] = d
	x.wait.Done()
	x.wait.Wait()
	return x.all
}

// agree lets every rank resolve its table, exchange digests and answer.
func agree(t *testing.T, tables []*Table, p ep.Problem) []*Answer {
	t.Helper()
	x := &exchange{all: make([]Digest, len(tables))}
	x.wait.Add(len(tables))
	answers := make([]*Answer, len(tables))
	var ranks sync.WaitGroup
	for rank, tab := range tables {
		ranks.Go(func() {
			r := tab.Resolve(testHost, p)
			answers[rank] = r.Agree(x.gather(rank, r.Digest())).Lookup(16, ep.Even)
		})
	}
	done := make(chan struct{})
	go func() { ranks.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a rank hangs")
	}
	return answers
}

func eightTables(t *testing.T, edit func(rank int, tab *Table)) []*Table {
	t.Helper()
	tables := make([]*Table, 8)
	for i := range tables {
		tables[i] = testTable(testRow(ep.Even, 0, 64, 128), testRow(ep.HotRank, 0, 64, 256))
		edit(i, tables[i])
		if err := tables[i].Seal(); err != nil {
			t.Fatal(err)
		}
	}
	return tables
}

func TestEightRanksWithOneTableAgree(t *testing.T) {
	for rank, a := range agree(t, eightTables(t, func(int, *Table) {}), testKey(ep.Even).Problem(64)) {
		if a.Reason != Exact || a.Config.Int("threads") != 128 {
			t.Errorf("rank %d: %+v", rank, a)
		}
	}
}

func TestEightRanksDetectOneDifferentRow(t *testing.T) {
	for name, edit := range map[string]func(*Table){
		"answering row": func(tab *Table) { tab.Rows[0].Config = tab.Rows[0].Config.With("threads", "512") },
		"other row":     func(tab *Table) { tab.Rows[1].Config = tab.Rows[1].Config.With("threads", "512") },
		"evidence":      func(tab *Table) { tab.Rows[0].Evidence.Rounds++ },
		"row missing":   func(tab *Table) { tab.Rows = tab.Rows[:1] },
		"other machine": func(tab *Table) { tab.Header.Machine.SMs-- },
	} {
		t.Run(name, func(t *testing.T) {
			tables := eightTables(t, func(rank int, tab *Table) {
				if rank == 5 {
					edit(tab)
				}
			})
			for rank, a := range agree(t, tables, testKey(ep.Even).Problem(64)) {
				if a.Reason != Disagreed || !a.Config.IsDefault() {
					t.Errorf("rank %d takes %+v", rank, a)
				}
			}
		})
	}
}

func TestRaggedTokensDoNotDisagree(t *testing.T) {
	tab := testTable(testRow(ep.Even, 0, 64, 128))
	p := testKey(ep.Even).Problem(64)
	full := tab.Resolve(testHost, p).Digest()
	if p.Tokens = 3; tab.Resolve(testHost, p).Digest() != full {
		t.Error("a rank with fewer tokens disagrees")
	}
	host := testHost
	host.ABI += ",more=1"
	if tab.Resolve(host, p).Digest() == full {
		t.Error("ranks with different builds of the kernels agree")
	}
	if p.MaxTokens = 65; tab.Resolve(testHost, p).Digest() == full {
		t.Error("ranks with different buffers agree")
	}
}

func TestAgreeNeedsEveryRank(t *testing.T) {
	r := testTable(testRow(ep.Even, 0, 64, 128)).Resolve(testHost, testKey(ep.Even).Problem(64))
	mine := r.Digest()
	for _, c := range []struct {
		name string
		all  []Digest
		note string
	}{
		{"none", nil, "0 digests gathered from 8 ranks"},
		{"seven", []Digest{mine, mine, mine, mine, mine, mine, mine}, "7 digests gathered from 8 ranks"},
		{"not mine", make([]Digest, 8), "this rank's digest is not among the 8 gathered"},
		{"last differs", []Digest{mine, mine, mine, mine, mine, mine, mine, {}}, "rank 7 resolved 00000000"},
	} {
		got := r.Agree(c.all)
		if got == r || got.Lookup(16, ep.Even).Reason != Disagreed {
			t.Errorf("%s: %+v", c.name, got.Lookup(16, ep.Even))
		}
		if notes := strings.Join(got.Notes(), "\n"); !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.name, notes, c.note)
		}
	}
}
