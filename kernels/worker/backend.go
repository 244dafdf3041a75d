package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Limits holds epbench's deadlines for a worker's answers. The worker should stop waiting for a rank long before Round
// ends. Then its answer can still say which rank hangs.
type Limits struct {
	Hello   time.Duration // includes the start of the process
	Open    time.Duration
	Prepare time.Duration // includes compilation
	Round   time.Duration // one call of the slowest candidate
	Verify  time.Duration
}

// DefaultLimits returns limits for one node of GPUs.
func DefaultLimits() Limits {
	return Limits{
		Hello: 60 * time.Second, Open: 120 * time.Second, Prepare: 120 * time.Second,
		Round: 15 * time.Second, Verify: 300 * time.Second,
	}
}

// Backend is a kernels.Backend whose sessions run in another process, the worker. It restarts a dead worker.
type Backend struct {
	command     Command
	limits      Limits
	proc        *process
	welcome     Welcome
	kernels     []kernels.Kernel
	quarantined map[string]*kernels.Failure // by quarantineKey
	restarts    int
	losses      []string // how the worker ended, each time that no config caused it
}

// Known returns this program's own declarations of a worker's kernels, or nil if there are none. After an error, Open
// fails.
type Known func(Welcome) ([]kernels.Kernel, error)

// Built returns a Known that refuses workers whose kernel sources differ from this program's.
func Built(abi ep.ABI, all []kernels.Kernel) Known {
	return func(w Welcome) ([]kernels.Kernel, error) {
		if w.ABI != abi {
			return nil, fmt.Errorf("it was built from other kernel sources (%s, this program has %s); rebuild both with make cuda", w.ABI.Short(), abi.Short())
		}
		return all, nil
	}
}

// Open starts the worker. If `known` returns kernels, a config must pass the checks of these kernels and the worker's
// rules. `known` may be nil.
func Open(ctx context.Context, c Command, limits Limits, known Known) (*Backend, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("no worker command given")
	}
	b := &Backend{command: c, limits: limits, quarantined: map[string]*kernels.Failure{}}
	if err := b.greet(ctx); err != nil {
		return nil, err
	}
	var err error
	if b.kernels, err = served(b.welcome, known); err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", c.Argv[0], err)
	}
	return b, nil
}

func served(w Welcome, known Known) (out []kernels.Kernel, err error) {
	for _, d := range w.Kernels {
		k, err := d.kernel()
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	if known == nil {
		return out, nil
	}
	own, err := known(w)
	if own == nil {
		return out, err
	}
	declared := out
	out = nil
	for _, k := range own {
		i := slices.IndexFunc(declared, func(d kernels.Kernel) bool { return d.Name == k.Name && d.Op == k.Op })
		if i >= 0 {
			out = append(out, withRules(k, declared[i]))
		}
	}
	return out, nil
}

func withRules(own, declared kernels.Kernel) kernels.Kernel {
	check := own.Check
	own.Check = func(m ep.Machine, p ep.Problem, c ep.Config) error {
		return cmp.Or(declared.Check(m, p, c), check(m, p, c))
	}
	return own
}

func (b *Backend) greet(ctx context.Context) error {
	p, err := start(ctx, b.command, b.limits.Hello)
	if err != nil {
		return err
	}
	var w Welcome
	if err := p.call(ctx, methodHello, Hello{Protocol: Protocol, Client: "epbench"}, &w, b.limits.Hello); err != nil {
		err = explain(ctx, p, methodHello, err)
		p.end()
		return fmt.Errorf("%s: %w", b.command.Argv[0], err)
	}
	if err := checkWelcome(w, b.welcome); err != nil {
		p.end()
		return fmt.Errorf("%s: %w", b.command.Argv[0], err)
	}
	b.proc, b.welcome = p, w
	return nil
}

// checkWelcome refuses a faulty welcome. After a restart, `before` is the welcome of the former process.
func checkWelcome(w, before Welcome) error {
	if w.Protocol != Protocol {
		return fmt.Errorf("speaks protocol %d, but this program speaks %d", w.Protocol, Protocol)
	}
	if len(w.Kernels) == 0 {
		return errors.New("declares no kernels")
	}
	if w.Machine.Backend == "" {
		return errors.New("hello: machine.backend is empty; set it to the name of the program that runs the kernels, because tables are found by it")
	}
	for i, d := range w.Kernels {
		if slices.ContainsFunc(w.Kernels[:i], func(other KernelDecl) bool { return other.Name == d.Name && other.Op == d.Op }) {
			return fmt.Errorf("hello: kernel %q: declared twice for %s; give each kernel another name", d.Name, d.Op)
		}
	}
	switch {
	case before.Protocol == 0:
		return nil
	case w.Machine.Key() != before.Machine.Key():
		return fmt.Errorf("came back on another machine after a restart: %s, before it was %s", w.Machine.Key(), before.Machine.Key())
	case w.ABI != before.ABI:
		return fmt.Errorf("came back with another build of its kernels after a restart: %q, before it was %q", w.ABI, before.ABI)
	case !reflect.DeepEqual(w.Kernels, before.Kernels):
		return errors.New("came back with other kernels or parameters after a restart")
	}
	return nil
}

func explain(ctx context.Context, p *process, method string, err error) error {
	var rpc *jrpc2.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errSilent):
		return fmt.Errorf("no answer to %s (%s)%s", method, p.progress(), p.printedLast())
	// jrpc2 reports a broken connection as InternalError.
	case errors.As(err, &rpc) && (rpc.Code != jrpc2.InternalError || !p.client.IsStopped()):
		return fmt.Errorf("%s: %s", method, rpc.Message)
	case !p.client.IsStopped() && !notSent(err):
		return fmt.Errorf("%s: the answer cannot be read: %w%s", method, err, p.printedLast())
	}
	// jrpc2 answers "context canceled" after the connection has ended.
	p.stop()
	return fmt.Errorf("%s: %s", method, p.howItEnded())
}

// notSent reports whether the worker ended before the request was written.
func notSent(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) || errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed)
}

func (b *Backend) Machine() ep.Machine { return b.welcome.Machine }

func (b *Backend) Kernels() []kernels.Kernel { return slices.Clone(b.kernels) }

func (b *Backend) ABI() ep.ABI { return b.welcome.ABI }

// Restarts returns how often the worker was started again.
func (b *Backend) Restarts() int { return b.restarts }

func (b *Backend) Losses() []string { return slices.Clone(b.losses) }

func (b *Backend) Empty(ctx context.Context) (map[string]float64, error) {
	var r EmptyReply
	if err := b.proc.call(ctx, methodEmpty, nil, &r, b.limits.Open); err != nil {
		return nil, explain(ctx, b.proc, methodEmpty, err)
	}
	return r.Clocks, nil
}

func (b *Backend) Precompile(p ep.Problem, configs []ep.Config) {
	if b.welcome.Ahead {
		// ignored, because the next request finds a lost worker
		_ = b.proc.client.Notify(context.Background(), notifyAhead, AheadParams{p, configs})
	}
}

func (b *Backend) MultiSession() bool { return b.welcome.Sessions }

func (b *Backend) Products() []string { return b.welcome.Beside }

func (b *Backend) checkBeside(p ep.Problem) error {
	of, ok := p.Product()
	switch {
	case !ok || slices.Contains(b.welcome.Beside, of.Kind):
		return nil
	case len(b.welcome.Beside) == 0:
		return fmt.Errorf("beside: %s cannot run matrix products at the same time as its calls; leave --beside out", b.welcome.Worker)
	}
	return fmt.Errorf("beside: %s cannot run %s at the same time as its calls; use %s", b.welcome.Worker, of.Kind, strings.Join(b.welcome.Beside, " or "))
}

func (b *Backend) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	if err := b.checkBeside(w.Problem); err != nil {
		return nil, err
	}
	s := &session{backend: b, workload: w, oracle: ref.New(w, 1), prepared: map[string]bool{}}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (b *Backend) Close() error {
	if b.proc == nil {
		return nil
	}
	b.proc.allowExit()
	if b.proc.lost() {
		b.proc.kill()
	} else {
		_ = b.proc.call(context.Background(), methodShutdown, nil, nil, shutLimit)
	}
	b.proc.stop()
	b.proc = nil
	return nil
}

// live restarts a process that no longer answers.
func (b *Backend) live(ctx context.Context) error {
	if !b.proc.lost() {
		return nil
	}
	if !b.proc.busy.Load() {
		b.proc.stop()
		b.recordLoss(b.proc.howItEnded())
	}
	return b.restart(ctx)
}

func (b *Backend) recordLoss(how string) {
	b.losses = append(b.losses, how)
	b.print(how + "; no config caused this, so the worker is started again")
}

// giveUp kills the process. The next request starts a new one.
func (b *Backend) giveUp() {
	b.proc.busy.Store(true)
	b.proc.kill()
}

func (b *Backend) print(line string) {
	if b.command.Said != nil {
		b.command.Said(line)
	}
}

func (b *Backend) restart(ctx context.Context) error {
	b.proc.end()
	b.restarts++
	return b.greet(ctx)
}

func quarantineKey(w *workloads.Workload, c ep.Config) string {
	return w.Problem.Key() + "|" + w.Spec + "|" + c.Key()
}
