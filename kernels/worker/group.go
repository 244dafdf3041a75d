package worker

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// silence is the time without a heartbeat after which a rank is called silent.
// Heartbeats come every half second.
const silence = 3 * time.Second

// troubleLimit is how long rank 0 may take to answer after another rank has said
// that it failed: usually rank 0 then waits for that rank in a collective.
const troubleLimit = 3 * time.Second

// settle is how long a group whose rank is gone still listens: what made the rank go, or
// another rank that goes for the same reason, may be read later than that it is gone.
const settle = 250 * time.Millisecond

// maxNotice bounds a message of a rank other than 0. The reason of a failure may hold a
// compiler's whole output.
const maxNotice = 1 << 20

// group are the connected ranks of one launched command.
type group struct {
	token    string
	mark     string // an assignment in the environment of the command and of all that it starts
	listener net.Listener
	arrived  chan struct{} // closed when rank 0 has connected
	closed   chan struct{} // closed by close
	end      func()        // kills the command

	mu      sync.Mutex
	members map[int]*member
	ending  bool     // the ranks may go
	served  int64    // the request that rank 0 answered last
	trouble *Trouble // the first thing that went wrong, with the rank's name in it
	gone    bool     // all that is known of it is that the rank is gone
	timer   *time.Timer
}

// newGroup takes a token that is given. It may then be in the environment of any process of
// this host, so that those to be killed have a mark of their own.
func newGroup(l net.Listener, end func()) *group {
	token := os.Getenv(tokenEnv)
	mark := launchEnv + "=" + rand.Text()
	if token == "" {
		token = rand.Text()
		mark = tokenEnv + "=" + token
	}
	return &group{
		token: token, mark: mark, listener: l, arrived: make(chan struct{}), closed: make(chan struct{}),
		end: end, members: map[int]*member{},
	}
}

// member is one connected rank.
type member struct {
	Greeting
	conn  net.Conn
	in    *bufio.Reader
	beat  Beat
	heard time.Time
}

// Trouble says that a rank failed. A rank sends it where rank 0 cannot: that may be
// waiting for this rank.
type Trouble struct {
	ID     int64     `json:"id,omitempty"` // of the request that it is about, 0 where the rank does not know
	Status ep.Status `json:"status"`
	Reason string    `json:"reason"`
}

func (m *member) String() string {
	return fmt.Sprintf("rank %d of %d (host %.64s, pid %d)", m.Rank, m.Ranks, m.Host, m.PID)
}

// add refuses a rank that is there already, of a group of another size, or too late
// for close to end its connection.
func (g *group) add(m *member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.closed:
		return errors.New("the run has ended")
	default:
	}
	if old := g.members[m.Rank]; old != nil {
		return fmt.Errorf("rank: %s has connected already", old)
	}
	for _, other := range g.members {
		if other.Ranks != m.Ranks {
			return fmt.Errorf("ranks: %d, but %s", m.Ranks, other)
		}
	}
	g.members[m.Rank] = m
	return nil
}

func (g *group) first() *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[0]
}

// watch reads what a rank other than 0 sends until its connection ends.
func (g *group) watch(m *member) {
	lines := bufio.NewScanner(m.in)
	lines.Buffer(nil, maxNotice)
	for lines.Scan() {
		var n struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			continue
		}
		switch n.Method {
		case notifyBeat:
			var b Beat
			if json.Unmarshal(n.Params, &b) == nil {
				g.heard(m.Rank, b)
			}
		case notifyFailed:
			var t Trouble
			if json.Unmarshal(n.Params, &t) == nil {
				g.fail(m, t, troubleLimit)
			}
		}
	}
	g.rankGone(m)
}

func (g *group) heard(rank int, b Beat) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[rank]; m != nil {
		m.beat, m.heard = b, time.Now()
	}
}

// fail notes the first trouble that has a reason, and ends the group after a while, unless
// clearTrouble is called before. A group that lost a rank ends anyway. What a rank says of a request
// may arrive after rank 0's answer to it, which then stands.
func (g *group) fail(m *member, t Trouble, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := t.ID != 0 && t.ID <= g.served
	if g.ending || late || g.trouble != nil && !g.gone {
		return
	}
	lost := g.trouble
	if !g.gone {
		g.timer = time.AfterFunc(after, g.end)
	}
	g.note(m, t)
	if g.gone { // which made which fail cannot be told
		g.trouble.Reason = lost.Reason + "; " + g.trouble.Reason
	}
	g.gone = false
}

// rankGone notes that a rank is gone where nothing is known yet, and ends the group.
func (g *group) rankGone(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending {
		return
	}
	if g.trouble == nil {
		g.note(m, Trouble{Status: ep.Crash, Reason: "is gone"})
		g.gone = true
	}
	g.stopTimer()
	time.AfterFunc(settle, g.endUnlessOver)
}

func (g *group) endUnlessOver() {
	g.mu.Lock()
	over := g.ending
	g.mu.Unlock()
	if !over {
		g.end()
	}
}

// note keeps a trouble under the rank's name. The caller holds mu.
func (g *group) note(m *member, t Trouble) {
	if !slices.Contains(ep.Statuses(), t.Status) || t.Status == ep.OK {
		t.Status = ep.Crash
	}
	t.Reason = fmt.Sprintf("%s: %s", m, t.Reason)
	g.trouble = &t
}

// stopTimer reports whether the end was due and is now put off. The caller holds mu.
func (g *group) stopTimer() bool {
	stopped := g.timer != nil && g.timer.Stop()
	g.timer = nil
	return stopped
}

// clearTrouble forgets a trouble that rank 0 has answered for, by its answer to a request.
func (g *group) clearTrouble(request int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.served = request
	if g.stopTimer() {
		g.trouble = nil
	}
}

// firstTrouble is the first thing that went wrong, nil if nothing did.
func (g *group) firstTrouble() *Trouble {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.trouble
}

// allowExit says that ranks may go now.
func (g *group) allowExit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ending = true
}

// close ends all connections: ranks on other hosts end by that.
func (g *group) close() {
	g.listener.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.closed:
		return
	default:
	}
	close(g.closed)
	g.ending = true
	g.stopTimer()
	for _, m := range g.members {
		m.conn.Close()
	}
}

// lateRanks names the ranks that the others wait for, "" if it cannot be told.
func (g *group) lateRanks() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	zero := g.members[0]
	if zero == nil {
		return "no rank has connected"
	}
	var silent, busy []string
	for _, r := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[r]
		if quiet := time.Since(m.heard); quiet > silence {
			silent = append(silent, fmt.Sprintf("%s is silent since %v", m, quiet.Round(time.Second)))
		} else if !m.beat.Waiting {
			busy = append(busy, fmt.Sprintf("%s is in %s", m, cmp.Or(m.beat.Doing, "nothing that it named")))
		}
	}
	switch {
	case len(silent) > 0:
		return strings.Join(silent, ", ")
	case len(busy) > 0 && len(busy) < len(g.members):
		return strings.Join(busy, ", ") + " while the others wait"
	case len(busy) > 1 && len(busy) == len(g.members):
		return g.fewestInStep()
	case len(g.members) > 1 && len(g.members) < zero.Ranks:
		return fmt.Sprintf("%d of %d ranks have connected", len(g.members), zero.Ranks)
	}
	return ""
}

// fewestInStep names the ranks that are where the fewest are: a library's own waiting is not told apart
// from work. "" where all are in the same place. The caller holds mu.
func (g *group) fewestInStep() string {
	at := map[string][]string{}
	for _, r := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[r]
		at[m.beat.Doing] = append(at[m.beat.Doing], fmt.Sprintf("%s is in %s", m, m.beat.Doing))
	}
	least := len(g.members)
	for _, ranks := range at {
		least = min(least, len(ranks))
	}
	if least == len(g.members) {
		return ""
	}
	var out []string
	for _, doing := range slices.Sorted(maps.Keys(at)) {
		if len(at[doing]) == least {
			out = append(out, at[doing]...)
		}
	}
	return strings.Join(out, ", ")
}
