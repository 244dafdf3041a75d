//go:build cuda

package drive

import (
	"context"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Options change how a Backend runs.
type Options struct {
	Loopback   bool          // more ranks than GPUs
	Clock      string        // chain, span, span:STAGE or event; "" means chain
	Deadline   time.Duration // longest wait of a kernel; 0 means DefaultDeadline
	InputScale float32       // global scale of NVFP4; 0 means 1
	Drill      Drill

	sms int // SMs to use, 0 for all
}

// DefaultDeadline is the default of Options.Deadline. It is much shorter than the time after which a worker counts as
// hung.
const DefaultDeadline = time.Second

// Backend runs the CUDA kernels on the GPUs of this host.
type Backend struct {
	options Options
	clock   string // without a stage
	node    *node
	machine ep.Machine
	monitor *monitor
}

// Open opens every GPU that CUDA_VISIBLE_DEVICES shows.
func Open(o Options) (*Backend, error) { return open(o, -1) }

// open opens the GPU with the index `only`, or all GPUs if `only` is negative.
func open(o Options, only int) (*Backend, error) {
	if o.Clock == "" {
		o.Clock = clockChain
	}
	clock, stage, err := parseClock(o.Clock)
	if err != nil {
		return nil, err
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Deadline < time.Millisecond {
		return nil, fmt.Errorf("deadline: %v is below 1ms; ranks may begin a call up to 1 ms apart, so use 1ms or more", o.Deadline)
	}
	if o.InputScale == 0 {
		o.InputScale = 1
	}
	n, err := openGPUs(stageDefines(stage), only)
	if err != nil {
		return nil, err
	}
	b := &Backend{options: o, clock: clock, node: n, monitor: openMonitor(n)}
	if b.machine, err = describe(n, b.monitor); err != nil {
		b.Close()
		return nil, err
	}
	if o.Loopback {
		b.machine.Link = declare.Loopback
	}
	if o.sms > 0 {
		b.machine.SMs = min(b.machine.SMs, o.sms)
	}
	return b, nil
}

func (b *Backend) Machine() ep.Machine { return b.machine }

func (b *Backend) Kernels() []kernels.Kernel { return declare.Kernels() }

func (b *Backend) ABI() ep.ABI { return declare.ABI() }

func (b *Backend) Close() error {
	b.monitor.close()
	b.node.close()
	return nil
}

func (b *Backend) MultiSession() bool { return true }

func (b *Backend) Products() []string { return []string{ep.Gemm, ep.Copy, ep.Step} }

func (b *Backend) Precompile(p ep.Problem, configs []ep.Config) {
	for _, c := range configs {
		units, err := candidateUnits(b.machine, p, c)
		if err != nil {
			continue // Prepare reports the error
		}
		for _, u := range units {
			b.node.ahead.Add(u)
		}
	}
}

func (b *Backend) Open(_ context.Context, w *workloads.Workload) (kernels.Session, error) {
	if err := w.Problem.Validate(); err != nil {
		return nil, err
	}
	if err := declare.CheckProblem(b.machine, w.Problem); err != nil {
		return nil, err
	}
	if err := b.checkPeers(w.Problem.Ranks); err != nil {
		return nil, err
	}
	return newSession(b, w)
}

func (b *Backend) checkPeers(ranks int) error {
	used := min(ranks, len(b.node.gpus))
	for i := range used {
		for j := range used {
			if why := b.node.apart[[2]int{i, j}]; why != nil {
				return fmt.Errorf("ranks: GPU %d cannot address GPU %d (%v); choose others with CUDA_VISIBLE_DEVICES", i, j, why)
			}
		}
	}
	return nil
}

const (
	emptyFold   = 20
	emptyRounds = 20
)

// Empty implements kernels.Clocker. It times an empty kernel with each clock, and returns the median over rounds in
// seconds. The time of a round is that of its slowest rank.
func (b *Backend) Empty(ctx context.Context) (map[string]float64, error) {
	ranks := min(len(b.node.gpus), declare.MaxRanks)
	if b.checkPeers(ranks) != nil {
		ranks = 1
	}
	r, err := newRankSet(b.node, ranks, b.options.Deadline)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.allocate(declare.TimingParts()); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, clock := range clocks {
		s := newSchedule(timing{op: empty, mode: ep.Graph, clock: clock, fold: emptyFold})
		p, err := newProgram(r, s, nil, r.args, extras{})
		if err != nil {
			return nil, err
		}
		rounds, err := p.measure(ctx, emptyRounds)
		p.free()
		if err != nil {
			return nil, fmt.Errorf("empty kernel, clock %s: %w", clock, err)
		}
		out[clock] = kernels.Rounds{Seconds: rounds}.MedianOfSlowest()
	}
	return out, nil
}
