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

// stderrTail is the number of last printed bytes that error messages quote.
const stderrTail = 2048

// maxLine bounds one message: the routing of 8 ranks x 8,192 tokens x top-22
// takes 15 MB.
const maxLine = 256 << 20

// leaveLimit bounds the time from the end of the connection to the end of the process, and
// shutLimit the requests close and shutdown. A process may be killed after either, because
// its end frees everything.
const (
	leaveLimit = 2 * time.Second
	shutLimit  = 5 * time.Second
)

// process is one run of the worker command.
type process struct {
	cmd      *exec.Cmd
	out      outputPipes
	client   *jrpc2.Client
	group    *group // the launched ranks, nil if the worker speaks over pipes
	tail     *tailBuffer
	printed  *printer
	beats    chan struct{} // one token at most: a heartbeat came
	ended    chan error    // the error with which the connection ended
	done     chan struct{} // closed when the process is gone
	wait     func() error  // waits for the command to end
	timeout  timeout
	rows     string       // file for probed rows, "" if the worker may be on another host
	requests atomic.Int64 // sent so far: the number of the last request
	busy     atomic.Bool  // call gave up waiting for an answer, which may still come
	leaving  atomic.Bool  // stop has ended the connection

	mu    sync.Mutex
	last  Beat
	exit  error
	broke bool // exit is the connection's error, not the process's
	freed bool // the process id may have been reused
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

// reap waits for the connection to end and then for the process. It kills a worker whose
// connection broke at once, and one that closed its output after leaveLimit.
func (p *process) reap() {
	cerr := p.disconnected()
	p.client.Close() // which also waits until what was read last has been handled
	timer := time.AfterFunc(leaveLimit, p.kill)
	if p.group != nil {
		p.group.close() // the other ranks exit on that
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

// disconnected waits for the end of the connection and returns its error. Pipes count as
// ended soon after the process, even if a child holds them open.
func (p *process) disconnected() error {
	if p.group != nil {
		return <-p.ended
	}
	gone := make(chan struct{})
	go func() {
		_ = p.wait() // reap reads the error
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

// kill kills the process group and all launched ranks.
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

// release kills what a worker over pipes left in its process group, and marks the group's id
// as free: another group may get it. It leaves launched ranks alone; killMarked finds those.
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

// allowExit lets launched ranks disconnect without being reported as lost.
func (p *process) allowExit() {
	if p.group != nil {
		p.group.allowExit()
	}
}

// stop closes the connection and waits for the process to end. The timer starts before
// Close, which waits for the worker's last message: a worker that hangs sends none.
func (p *process) stop() {
	timer := time.AfterFunc(leaveLimit, p.kill)
	defer timer.Stop()
	p.leaving.Store(p.leaving.Load() || !p.client.IsStopped())
	p.client.Close()
	<-p.done
}

// ending returns the error with which the connection ended; io.EOF if stop ended it.
func (p *process) ending(err error) error {
	if p.leaving.Load() {
		return io.EOF
	}
	return err
}

// lost reports whether the process can serve no more requests: its connection ended, or it
// may still work on a request that call gave up on.
func (p *process) lost() bool { return p.busy.Load() || p.client.IsStopped() }

// howItEnded waits for the process to end, and returns the cause and its last output.
func (p *process) howItEnded() string {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause() + p.printedLast()
}

// cause says why the connection ended. For a launched command it names the rank, which says
// more than the launcher's exit status.
func (p *process) cause() string {
	if p.group != nil {
		if t := p.group.firstTrouble(); t != nil {
			return t.Reason
		}
		var network *net.OpError
		if p.exit != nil && p.broke && !errors.As(p.exit, &network) {
			return fmt.Sprintf("%s: sent something that is no message: %v", p.group.first(), p.exit)
		}
		return p.group.first().String() + ": is gone"
	}
	if p.exit != nil {
		return "worker died: " + p.exit.Error()
	}
	return "worker closed the connection"
}

// printedLast quotes the process's last output, ready to follow a sentence; "" without any.
func (p *process) printedLast() string {
	if said := p.tail.String(); said != "" {
		return "; it printed: " + said
	}
	return ""
}

// progress describes the last heartbeat: which ranks are late, or how far each has come.
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

// A timeout bounds a request: its context ends with errSilent. Tests that wait for
// heartbeats, however late they come, replace it.
type timeout func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc)

func timed(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSilent)
}

// call performs one request. Heartbeats do not extend the deadline: a worker sends them even
// while one of its kernels spins for ever.
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
