package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
)

// stderrTail is the number of bytes that an error quotes of the worker's last output.
const stderrTail = 2048

// maxLine is the size limit of a message, in bytes.
const maxLine = 256 << 20

const (
	leaveLimit = 2 * time.Second // from the connection's end to the kill
	shutLimit  = 5 * time.Second // for the requests close and shutdown
)

type process struct {
	cmd      *exec.Cmd
	out      outputPipes
	client   *jrpc2.Client
	group    *group // nil for a worker on pipes
	tail     *tailBuffer
	printed  *printer
	beats    chan struct{} // filled by heartbeats
	ended    chan error    // receives the connection's error when the connection ends
	done     chan struct{} // closed at the process's end
	wait     func() error
	timeout  timeout
	rows     string // file for probed rows, or ""
	requests atomic.Int64
	busy     atomic.Bool // an unanswered request may still run
	leaving  atomic.Bool

	mu    sync.Mutex
	last  Beat
	exit  error
	broke bool // `exit` holds the connection's error, not the process's
	freed bool // the system may have given the process id to another process
}

func start(ctx context.Context, c Command, limit time.Duration) (*process, error) {
	p := &process{
		cmd:   exec.Command(c.Argv[0], c.Argv[1:]...),
		tail:  &tailBuffer{limit: stderrTail},
		beats: make(chan struct{}, 1),
		ended: make(chan error, 1),
		done:  make(chan struct{}),

		timeout: timed,
	}
	p.printed = &printer{tail: p.tail, show: c.Said}
	p.wait = sync.OnceValue(func() error {
		err := p.cmd.Wait()
		p.release()
		p.out.drain()
		return err
	})
	// With its own process group, the worker gets no Ctrl-C, and one kill reaches its children.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	messages, err := p.connect(ctx, c, limit)
	if err != nil {
		p.out.close()
		return nil, err
	}
	p.client = jrpc2.NewClient(messages, &jrpc2.ClientOptions{
		OnNotify: p.onNotify,
		OnStop:   func(_ *jrpc2.Client, err error) { p.ended <- p.ending(err) },
	})
	go p.reap()
	return p, nil
}

func (p *process) connect(ctx context.Context, c Command, limit time.Duration) (channel.Channel, error) {
	stderr, err := p.out.to(p.tail)
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = stderr
	if c.Listen != "" {
		g, err := launch(ctx, p, c.Listen, limit)
		if err != nil {
			return nil, err
		}
		zero := g.first()
		return channel.Line(&lineLimit{r: zero.in, limit: maxLine}, zero.conn), nil
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := p.out.pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = stdout
	if err := p.run(); err != nil {
		return nil, err
	}
	p.rows = newRowsFile()
	// channel.Line drops a last line that has no line feed, so one is added.
	lines := io.MultiReader(&lineLimit{r: out, limit: maxLine}, strings.NewReader("\n"))
	return messageFilter{channel.Line(lines, in), p.printed}, nil
}

func (p *process) run() error {
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.cmd.Args[0], err)
	}
	p.out.started()
	return nil
}

// reap waits until the connection and the process have ended. It kills a process that outlives its connection.
func (p *process) reap() {
	cerr := p.disconnected()
	p.client.Close() // waits until the last messages are handled
	timer := time.AfterFunc(leaveLimit, p.kill)
	if p.group != nil {
		if !isProtocolError(cerr) {
			p.group.rankZeroGone()
		}
		p.group.close() // makes the other ranks exit
	}
	if cerr != nil && !errors.Is(cerr, io.EOF) {
		p.kill()
	}
	defer timer.Stop()
	err := p.wait()
	p.mu.Lock()
	p.exit = err
	if cerr != nil && !errors.Is(cerr, io.EOF) {
		p.exit, p.broke = cerr, true
	}
	p.mu.Unlock()
	_ = os.Remove(p.rows) // may not exist
	p.out.close()
	close(p.done)
}

// disconnected waits for the connection's end and returns the connection's error. After the process has ended,
// disconnected waits only pipeDelay longer, because a child may keep a pipe open.
func (p *process) disconnected() error {
	if p.group != nil {
		return <-p.ended
	}
	gone := make(chan struct{})
	go func() {
		_ = p.wait()
		close(gone)
	}()
	select {
	case err := <-p.ended:
		return err
	case <-gone:
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(pipeDelay):
		p.out.close()
		<-p.ended
		return io.EOF
	}
}

func (p *process) onNotify(r *jrpc2.Request) {
	if p.group != nil && r.Method() == notifyFailed {
		var t Trouble
		if r.UnmarshalParams(&t) == nil {
			p.group.fail(p.group.first(), t, troubleLimit)
		}
	}
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
	if p.group != nil {
		p.group.heard(0, b)
	}
	select {
	case p.beats <- struct{}{}:
	default:
	}
}

func (p *process) kill() {
	p.mu.Lock()
	if !p.freed {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.mu.Unlock()
	if p.group != nil {
		killMarked(p.group.mark)
		p.group.close()
	}
}

// release kills the children of a worker on pipes. Later the system may give the process id to another process.
func (p *process) release() {
	if p.group == nil {
		p.kill()
	}
	p.mu.Lock()
	p.freed = true
	p.mu.Unlock()
}

func (p *process) end() {
	p.kill()
	p.stop()
}

func (p *process) allowExit() {
	if p.group != nil {
		p.group.allowExit()
	}
}

// stop closes the connection and waits until the process has ended. It sets a timer that kills the process, because
// Client.Close waits for a worker that hangs.
func (p *process) stop() {
	timer := time.AfterFunc(leaveLimit, p.kill)
	defer timer.Stop()
	p.leaving.Store(p.leaving.Load() || !p.client.IsStopped())
	p.client.Close()
	<-p.done
}

func (p *process) ending(err error) error {
	if p.leaving.Load() {
		return io.EOF
	}
	return err
}

// lost reports whether the process can serve no more requests.
func (p *process) lost() bool { return p.busy.Load() || p.client.IsStopped() }

func (p *process) howItEnded() string {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause() + p.printedLast()
}

func (p *process) cause() string {
	if p.group != nil {
		if t := p.group.firstTrouble(); t != nil {
			return t.Reason
		}
		if p.broke && isProtocolError(p.exit) {
			return fmt.Sprintf("%s: sent text that is not a message: %v", p.group.first(), p.exit)
		}
		return p.group.first().String() + ": is gone"
	}
	if p.exit != nil {
		return "worker died: " + p.exit.Error()
	}
	return "worker closed the connection"
}

// isProtocolError reports whether a connection's error is about the text that was sent.
func isProtocolError(err error) bool {
	var network *net.OpError
	return err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &network)
}

func (p *process) printedLast() string {
	if said := p.tail.String(); said != "" {
		return "; it printed: " + said
	}
	return ""
}

func (p *process) progress() string {
	if p.group != nil {
		if late := p.group.lateRanks(); late != "" {
			return late
		}
	}
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
		s += fmt.Sprintf(", slowest is rank %d at round %d", slow, p.last.Ranks[slow])
	}
	return s
}

// errSilent means that a request got no answer before its deadline.
var errSilent = errors.New("no answer")

// timeout returns a context that ends after a limit, with cause errSilent. Tests replace it.
type timeout func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc)

func timed(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSilent)
}

// call performs one request. Heartbeats do not extend the deadline: a worker sends them even while a kernel hangs.
func (p *process) call(ctx context.Context, method string, params, result any, limit time.Duration) error {
	if result == nil {
		result = new(json.RawMessage)
	}
	ctx, cancel := p.timeout(ctx, limit)
	defer cancel()
	request := p.requests.Add(1)
	answer := make(chan error, 1)
	go func() { answer <- p.client.CallResult(ctx, method, params, result) }()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done(): // CallResult may not return
		err = ctx.Err()
	}
	if err != nil && ctx.Err() != nil {
		p.busy.Store(true)
	}
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	if p.group != nil && (err == nil || asFailure(err) != nil) {
		p.group.clearTrouble(request)
	}
	return err
}
