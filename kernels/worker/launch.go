package worker

import (
	"bufio"
	"bytes"
	"context"
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

// Environment variables of a launched command.
const (
	addressEnv = "EPBENCH_ADDRESS"
	tokenEnv   = "EPBENCH_TOKEN"

	// launchEnv marks the processes of a command if the user chose EPBENCH_TOKEN, because processes of other commands
	// may have this token too. Otherwise EPBENCH_TOKEN is random and marks them.
	launchEnv = "EPBENCH_LAUNCH"
)

// Greeting is a launched rank's first message.
type Greeting struct {
	Nonce string `json:"nonce,omitempty"` // random text for the listener's proof
	Token string `json:"token,omitempty"` // instead of Nonce, only from this host
	Rank  int    `json:"rank"`
	Ranks int    `json:"ranks"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Meet  string `json:"meet,omitempty"` // from rank 0: address at which the other ranks reach it
}

// Admission answers a Proof, or a Greeting with a token.
type Admission struct {
	Meet  string `json:"meet"`
	Proof string `json:"proof,omitempty"` // the listener's HMAC
	Error string `json:"error,omitempty"` // why the connection is refused
}

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
	if a.IP.IsUnspecified() { // other hosts use this host's name
		if host, err = os.Hostname(); err != nil {
			l.Close()
			return nil, "", err
		}
	}
	return l, net.JoinHostPort(host, strconv.Itoa(a.Port)), nil
}

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
	go g.gate.accept(l, g.greet)
	if err := g.await(ctx, p, limit); err != nil {
		p.kill()
		return nil, fmt.Errorf("%s: %w", p.cmd.Args[0], err)
	}
	return g, nil
}

// await waits until rank 0 has connected. If the command exits with status 0, await keeps waiting, because ranks may
// run in the background.
func (g *group) await(ctx context.Context, p *process, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	exited := make(chan struct{})
	go func() {
		_ = p.wait()
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

func (g *group) greet(c net.Conn) {
	in := bufio.NewReaderSize(c, maxGreeting)
	m, proof, err := g.admit(c, in)
	if err != nil {
		_ = json.NewEncoder(c).Encode(Admission{Error: err.Error()})
		c.Close()
		return
	}
	if m.Rank == 0 {
		err = json.NewEncoder(c).Encode(Admission{Meet: m.Meet, Proof: proof})
		_ = c.SetDeadline(time.Time{})
		close(g.arrived)
	} else if !g.waitForRankZero() {
		return
	} else {
		_ = c.SetDeadline(time.Time{})
		err = json.NewEncoder(c).Encode(Admission{Meet: g.first().Meet, Proof: proof})
		go g.watch(m)
	}
	if err != nil {
		c.Close() // the goroutine that reads from c reports the error
	}
}

// waitForRankZero returns false if the group is closed first.
func (g *group) waitForRankZero() bool {
	select {
	case <-g.arrived:
		return true
	case <-g.closed:
		return false
	}
}

func (g *group) admit(c net.Conn, in *bufio.Reader) (*member, string, error) {
	greeting, proof, err := g.gate.admit(c, in, g.token)
	if err != nil {
		return nil, "", err
	}
	m := &member{Greeting: greeting, conn: c, in: in, heard: time.Now()}
	if m.Ranks < 1 || m.Ranks > ep.MaxRanks || m.Rank < 0 || m.Rank >= m.Ranks {
		return nil, "", fmt.Errorf("rank: %d of %d, want 0 <= rank < ranks <= %d", m.Rank, m.Ranks, ep.MaxRanks)
	}
	return m, proof, g.add(m)
}

// killMarked kills this host's processes whose environment contains the mark. A kill of the command's process group
// would miss ranks, because launchers put them into groups of their own. killMarked reads /proc.
func killMarked(mark string) {
	for _, pid := range marked(mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // may be gone
	}
}

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
