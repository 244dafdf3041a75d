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
)

// silence is the time after which a rank without heartbeats counts as silent.
const silence = 3 * time.Second

// troubleLimit bounds the wait for rank 0 after another rank failed.
const troubleLimit = 3 * time.Second

// maxNotice is the size limit, in bytes, for messages of ranks other than 0.
const maxNotice = 1 << 20

// group holds the connected ranks of one command.
type group struct {
	token    string
	mark     string // environment entry by which killMarked finds the command's processes
	listener net.Listener
	gate     gate
	arrived  chan struct{} // closed when rank 0 has connected
	closed   chan struct{}
	left     chan struct{} // closed by allLeft when all ranks are gone
	allLeft  func()
	end      func()

	mu      sync.Mutex
	members map[int]*member // by rank
	ending  bool            // ranks may disconnect
	served  int64           // last request that rank 0 answered
	ends    []end           // failures and disconnections
	timer   *time.Timer     // ends the group
}

// newGroup makes a group. The token serves as the mark, unless the user chose the token: then processes outside the
// group may have it too, so the mark is another random text.
func newGroup(l net.Listener, end func()) *group {
	token := os.Getenv(tokenEnv)
	mark := launchEnv + "=" + rand.Text()
	if token == "" {
		token = rand.Text()
		mark = tokenEnv + "=" + token
	}
	left := make(chan struct{})
	return &group{
		token: token, mark: mark, listener: l, arrived: make(chan struct{}), closed: make(chan struct{}),
		left: left, allLeft: sync.OnceFunc(func() { close(left) }), end: end, members: map[int]*member{},
	}
}

type member struct {
	Greeting
	conn  net.Conn
	in    *bufio.Reader
	beat  Beat
	heard time.Time // when beat arrived
}

func (m *member) String() string {
	return fmt.Sprintf("rank %d of %d (host %.64s, pid %d)", m.Rank, m.Ranks, m.Host, m.PID)
}

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

// stopTimer reports whether it stopped a timer. The caller holds mu.
func (g *group) stopTimer() bool {
	stopped := g.timer != nil && g.timer.Stop()
	g.timer = nil
	return stopped
}

func (g *group) allowExit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ending = true
}

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

// lateRanks describes the ranks for which the others wait, or returns "".
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
			silent = append(silent, fmt.Sprintf("%s has been silent for %v", m, quiet.Round(time.Second)))
		} else if !m.beat.Waiting {
			busy = append(busy, fmt.Sprintf("%s is in %s", m, cmp.Or(m.beat.Doing, "an unnamed step")))
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

// fewestInStep finds the step that the fewest ranks are in, and describes these ranks. It returns "" if all ranks are
// in the same step. The caller holds mu.
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
