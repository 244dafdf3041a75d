package worker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// The variables that a launched command finds its way back by.
const (
	addressEnv = "EPBENCH_ADDRESS"
	tokenEnv   = "EPBENCH_TOKEN"
	launchEnv  = "EPBENCH_LAUNCH" // set where the token is given
)

// greetLimit bounds the wait for a connection's first line.
const greetLimit = 10 * time.Second

// maxGreeting bounds that line, since anybody can connect.
const maxGreeting = 4096

// Greeting is the first line of a connection of a launched rank.
type Greeting struct {
	Token string `json:"token"` // EPBENCH_TOKEN
	Rank  int    `json:"rank"`
	Ranks int    `json:"ranks"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Meet  string `json:"meet,omitempty"` // rank 0 only: where the other ranks reach it, free text to epbench
}

// Admission answers a Greeting.
type Admission struct {
	Meet  string `json:"meet"`            // what rank 0 gave
	Error string `json:"error,omitempty"` // why the connection is refused; epbench closes it
}

// listen opens the address that ranks connect back to, and says how they spell it.
func listen(at string) (net.Listener, string, error) {
	if _, _, err := net.SplitHostPort(at); err != nil {
		at = net.JoinHostPort(at, "0")
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, "", err
	}
	a := l.Addr().(*net.TCPAddr)
	host := a.IP.String()
	if a.IP.IsUnspecified() { // all interfaces: other hosts know this one by name
		if host, err = os.Hostname(); err != nil {
			l.Close()
			return nil, "", err
		}
	}
	return l, net.JoinHostPort(host, strconv.Itoa(a.Port)), nil
}

// launch starts the command and waits until its rank 0 has connected.
func launch(ctx context.Context, p *process, at string, limit time.Duration) (*group, error) {
	l, address, err := listen(at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	g := newGroup(l, p.kill)
	p.group = g
	p.cmd.Env = append(os.Environ(), addressEnv+"="+address, tokenEnv+"="+g.token, g.mark)
	stdout, err := p.out.to(&lineWriter{to: p.printed})
	if err == nil {
		p.cmd.Stdout = stdout
		err = p.run()
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	go g.accept()
	if err := g.await(ctx, p, limit); err != nil {
		p.kill()
		return nil, fmt.Errorf("%s: %w", p.cmd.Args[0], err)
	}
	return g, nil
}

// await waits for rank 0. A command that ends well may have put its ranks into the
// background; one that fails has none.
func (g *group) await(ctx context.Context, p *process, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	exited := make(chan struct{})
	go func() {
		_ = p.wait() // told below
		close(exited)
	}()
	for {
		select {
		case <-g.arrived:
			return nil
		case <-exited:
			if err := p.wait(); err != nil {
				return fmt.Errorf("ended before rank 0 connected: %w%s", err, p.printedLast())
			}
			exited = nil
		case <-timer.C:
			return fmt.Errorf("rank 0 did not connect to %s within %v%s", g.listener.Addr(), limit, p.printedLast())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// accept takes connections until the listener is closed.
func (g *group) accept() {
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return
		}
		go g.greet(c)
	}
}

// greet reads a connection's first line and admits its rank, or says why not.
func (g *group) greet(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(greetLimit))
	in := bufio.NewReaderSize(c, maxGreeting)
	m, err := g.admit(c, in)
	if err != nil {
		_ = json.NewEncoder(c).Encode(Admission{Error: err.Error()}) // it is refused either way
		c.Close()
		return
	}
	if m.Rank == 0 {
		err = json.NewEncoder(c).Encode(Admission{Meet: m.Meet})
		_ = c.SetDeadline(time.Time{})
		close(g.arrived)
	} else if !g.waitForRankZero() {
		return
	} else {
		_ = c.SetDeadline(time.Time{})
		err = json.NewEncoder(c).Encode(Admission{Meet: g.first().Meet})
		go g.watch(m)
	}
	if err != nil {
		c.Close() // seen by who reads
	}
}

// waitForRankZero waits for rank 0, false if the group is closed first. The deadline of
// await bounds this, not greetLimit.
func (g *group) waitForRankZero() bool {
	select {
	case <-g.arrived:
		return true
	case <-g.closed:
		return false
	}
}

func (g *group) admit(c net.Conn, in *bufio.Reader) (*member, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	m := &member{conn: c, in: in, heard: time.Now()}
	if err := json.Unmarshal(line, &m.Greeting); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(m.Token), []byte(g.token)) != 1 {
		return nil, fmt.Errorf("token: not that of %s; this rank belongs to another run", tokenEnv)
	}
	if m.Ranks < 1 || m.Ranks > ep.MaxRanks || m.Rank < 0 || m.Rank >= m.Ranks {
		return nil, fmt.Errorf("rank: %d of %d, want 0 <= rank < ranks <= %d", m.Rank, m.Ranks, ep.MaxRanks)
	}
	return m, g.add(m)
}

// killMarked ends every process of this host whose environment holds the mark.
// Launchers put ranks into process groups and sessions of their own (torchrun and
// mpirun do), where a signal to the command's group does not reach them. Where there
// is no /proc, ranks end because their connection does.
func killMarked(mark string) {
	for _, pid := range marked(mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by now
	}
}

// family lists the processes of this host whose environment holds the mark.
func marked(mark string) []int {
	var out []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range files {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte(mark)) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
