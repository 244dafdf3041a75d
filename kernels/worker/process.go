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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
)

// stderrTail is how much of what a worker printed is kept for its howItEnded.
const stderrTail = 2048

// maxLine bounds one message: the routing of 8 ranks x 8,192 tokens x top-22
// takes 15 MB.
const maxLine = 256 << 20

// leaveLimit is how long a process may take to end once its connection has, and shutLimit
// how long it may take to close a session or to shut down: what it then frees is gone with
// the process, too.
const (
	leaveLimit = 2 * time.Second
	shutLimit  = 5 * time.Second
)

// process is one run of the worker command.
type process struct {
	cmd      *exec.Cmd
	out      outputPipes
	client   *jrpc2.Client
	group    *group // the launched ranks, nil where the worker speaks over pipes
	tail     *tailBuffer
	printed  *printer
	beats    chan struct{} // one token at most: a heartbeat came
	ended    chan error    // the connection's last words
	done     chan struct{} // closed when the process is gone
	wait     func() error  // for the command to end
	timeout  timeout
	rows     string       // file for probed rows, "" where the worker may be on another host
	requests atomic.Int64 // so far; the client numbers them so
	busy     atomic.Bool  // nobody waits any more for the answer to the last request
	leaving  atomic.Bool  // stop has ended the connection

	mu    sync.Mutex
	last  Beat
	exit  error
	broke bool // exit is how the connection ended, not the process
	freed bool // the command's number may be another's
}

// start runs the command. A launched one must connect within limit.
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
	// A process group of its own: what the worker started dies with it, and a
	// Ctrl-C meant for epbench does not reach it first.
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

// connect starts the command and returns the channel of its messages.
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
	return messageFilter{channel.Line(&lineLimit{r: out, limit: maxLine}, in), p.printed}, nil
}

// run starts the command.
func (p *process) run() error {
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.cmd.Args[0], err)
	}
	p.out.started()
	return nil
}

// reap waits for the connection to end and then for the process. A worker that
// sent nonsense is killed; one that closed its output has two seconds to leave by
// itself.
func (p *process) reap() {
	cerr := p.disconnected()
	p.client.Close() // which also waits until what was read last has been handled
	timer := time.AfterFunc(leaveLimit, p.kill)
	if p.group != nil {
		p.group.close() // the other ranks go by that
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
	_ = os.Remove(p.rows) // there may be none
	p.out.close()
	close(p.done)
}

// disconnected waits for the end of the connection and returns its last words. That of a
// worker over pipes ends soon after its process, even where a child holds them.
func (p *process) disconnected() error {
	if p.group != nil {
		return <-p.ended
	}
	gone := make(chan struct{})
	go func() {
		_ = p.wait() // told by reap
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

// kill ends the process group without asking, and all ranks that it launched.
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

// release ends what a worker over pipes left in its group when it ended. From then on the
// group's number may be another's, and is not killed any more. Launched ranks may stay: they
// are killed by their mark.
func (p *process) release() {
	if p.group == nil {
		p.kill()
	}
	p.mu.Lock()
	p.freed = true
	p.mu.Unlock()
}

// end kills the process and waits for it to go.
func (p *process) end() {
	p.kill()
	p.stop()
}

// allowExit says that the process may end by itself.
func (p *process) allowExit() {
	if p.group != nil {
		p.group.allowExit()
	}
}

// stop closes the connection and waits for the process to go. The timer runs before, since
// Close waits for the worker's last message, and one that hangs has none.
func (p *process) stop() {
	timer := time.AfterFunc(leaveLimit, p.kill)
	defer timer.Stop()
	p.leaving.Store(p.leaving.Load() || !p.client.IsStopped())
	p.client.Close()
	<-p.done
}

// ending is the error with which the connection ended. An end by stop is none.
func (p *process) ending(err error) error {
	if p.leaving.Load() {
		return io.EOF
	}
	return err
}

// lost reports that the process is of no use any more: it is gone, or may still be at work on
// a request that nobody waits for.
func (p *process) lost() bool { return p.busy.Load() || p.client.IsStopped() }

// howItEnded says how a dead process ended, with what it printed last.
func (p *process) howItEnded() string {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause() + p.printedLast()
}

// cause says why the connection ended. That of a launched command names the rank:
// how the launcher then ended says less.
func (p *process) cause() string {
	if p.group != nil {
		if t := p.group.firstTrouble(); t != nil {
			return t.Reason
		}
		var network *net.OpError
		if p.exit != nil && p.broke && !errors.As(p.exit, &network) {
			return fmt.Sprintf("%s: sent what is no message: %v", p.group.first(), p.exit)
		}
		return p.group.first().String() + ": is gone"
	}
	if p.exit != nil {
		return "worker died: " + p.exit.Error()
	}
	return "worker closed the connection"
}

// printedLast is what the process printed last, ready to follow a sentence.
func (p *process) printedLast() string {
	if said := p.tail.String(); said != "" {
		return "; it printed: " + said
	}
	return ""
}

// progress says how far the ranks had come by the last heartbeat.
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
		s += fmt.Sprintf(", rank %d furthest behind at round %d", slow, p.last.Ranks[slow])
	}
	return s
}

// errSilent is returned by call when the deadline passed.
var errSilent = errors.New("no answer")

// A timeout bounds a request: its context ends with errSilent. A test that must wait for
// heartbeats, however late they come, has one of its own.
type timeout func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc)

func timed(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSilent)
}

// call performs one request. Heartbeats do not extend the deadline, since a worker
// sends them even while one of its kernels spins for ever.
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
	case <-ctx.Done(): // a worker that does not read keeps the request from leaving
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
