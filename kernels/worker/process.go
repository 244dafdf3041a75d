package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
)

// stderrTail is how much of what a worker printed is kept for its obituary.
const stderrTail = 2048

// maxLine bounds one message: the routing of 8 ranks x 8,192 tokens x top-22
// takes 15 MB.
const maxLine = 256 << 20

// process is one run of the worker command.
type process struct {
	cmd    *exec.Cmd
	client *jrpc2.Client
	tail   *tailBuffer
	beats  chan struct{} // one token at most: a heartbeat came
	ended  chan error    // the connection's last words
	done   chan struct{} // closed when the process is gone

	mu   sync.Mutex
	last Beat
	exit error
}

// start runs the command; argv[0] is looked up on PATH.
func start(argv []string) (*process, error) {
	p := &process{
		cmd:   exec.Command(argv[0], argv[1:]...),
		tail:  &tailBuffer{limit: stderrTail},
		beats: make(chan struct{}, 1),
		ended: make(chan error, 1),
		done:  make(chan struct{}),
	}
	// A process group of its own: what the worker started dies with it, and a
	// Ctrl-C meant for epbench does not reach it first.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = p.tail
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	reader := &lineLimit{r: out, limit: maxLine}
	p.client = jrpc2.NewClient(channel.Line(reader, in), &jrpc2.ClientOptions{
		OnNotify: p.onNotify,
		OnStop:   func(_ *jrpc2.Client, err error) { p.ended <- err },
	})
	go p.reap()
	return p, nil
}

// reap waits for the connection to end and then for the process. Wait closes the
// pipe, and by then the worker's last message must have been read. A worker that
// sent nonsense is killed; one that closed its output has two seconds to leave by
// itself.
func (p *process) reap() {
	cerr := <-p.ended
	timer := time.AfterFunc(2*time.Second, p.kill)
	if cerr != nil && !errors.Is(cerr, io.EOF) {
		p.kill()
	}
	defer timer.Stop()
	err := p.cmd.Wait()
	p.mu.Lock()
	p.exit = err
	if cerr != nil && !errors.Is(cerr, io.EOF) {
		p.exit = cerr
	}
	p.mu.Unlock()
	close(p.done)
}

func (p *process) onNotify(r *jrpc2.Request) {
	if r.Method() != notifyBeat {
		return
	}
	var b Beat
	if r.UnmarshalParams(&b) != nil {
		return
	}
	p.mu.Lock()
	p.last = b
	p.mu.Unlock()
	select {
	case p.beats <- struct{}{}:
	default:
	}
}

// kill ends the process group without asking.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

// stop closes the connection and waits for the process to go.
func (p *process) stop() {
	p.client.Close()
	select {
	case <-p.done:
	case <-time.After(2 * time.Second):
		p.kill()
		<-p.done
	}
}

// obituary says how a dead process ended, with what it printed last.
func (p *process) obituary() string {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	why := "worker closed the connection"
	if p.exit != nil {
		why = "worker died: " + p.exit.Error()
	}
	if said := p.tail.String(); said != "" {
		why += "; it printed: " + said
	}
	return why
}

// progress says how far the ranks had come by the last heartbeat.
func (p *process) progress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.Doing == "" {
		return "no heartbeat"
	}
	s := "last heartbeat: " + p.last.Doing
	if len(p.last.Ranks) > 0 {
		slow := 0
		for r, n := range p.last.Ranks {
			if n < p.last.Ranks[slow] {
				slow = r
			}
		}
		s += fmt.Sprintf(", rank %d furthest behind at round %d", slow, p.last.Ranks[slow])
	}
	return s
}

// errSilent is returned by call when the deadline passed.
var errSilent = errors.New("no answer")

// call performs one request. Heartbeats do not extend the deadline, since a worker
// sends them even while one of its kernels spins for ever.
func (p *process) call(ctx context.Context, method string, params, result any, limit time.Duration) error {
	if result == nil {
		result = new(json.RawMessage)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	err := p.client.CallResult(ctx, method, params, result)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct {
	mu    sync.Mutex
	limit int
	buf   []byte
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.buf)), " ")
}

// lineLimit fails once a line grows past limit, so that a worker that prints
// without end cannot fill this program's memory.
type lineLimit struct {
	r     io.Reader
	limit int
	run   int
}

func (l *lineLimit) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	for _, c := range b[:n] {
		if l.run++; c == '\n' {
			l.run = 0
		}
	}
	if l.run > l.limit {
		return 0, fmt.Errorf("a line is longer than %d bytes", l.limit)
	}
	return n, err
}
