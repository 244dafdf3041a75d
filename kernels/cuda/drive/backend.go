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
	Loopback   bool          // allow more ranks than GPUs: several ranks then share a GPU
	Clock      string        // chain, span, span:STAGE or event; "" means chain
	Deadline   time.Duration // longest time that a kernel waits; 0 means DefaultDeadline
	InputScale float32       // global input scale of NVFP4; 0 means 1
	Drill      Drill         // fault that is caused on purpose

	sms int // number of SMs to use on each GPU, 0 for all; NVIDIA's racecheck takes longer with more SMs
}

// DefaultDeadline is much longer than the time between the starts of two ranks, and much shorter than the
// time after which epbench considers the worker hung.
const DefaultDeadline = time.Second

// Backend runs the CUDA kernels on the GPUs of this host.
type Backend struct {
	options Options
	clock   string // the clock of the options, without a stage
	node    *node
	machine ep.Machine
	monitor *monitor
}

// Open opens every GPU that CUDA_VISIBLE_DEVICES shows.
func Open(o Options) (*Backend, error) { return open(o, -1) }

// open opens the GPU with number `only`, or all GPUs if `only` is below 0.
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
		return nil, fmt.Errorf("deadline: %v is below 1ms; ranks may begin a call that far apart, so use 1ms or more", o.Deadline)
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

// Machine implements kernels.Backend.
func (b *Backend) Machine() ep.Machine { return b.machine }

// Kernels implements kernels.Backend.
func (b *Backend) Kernels() []kernels.Kernel { return declare.Kernels() }

// ABI implements kernels.Versioned.
func (b *Backend) ABI() ep.ABI { return declare.ABI() }

// Close implements kernels.Backend.
func (b *Backend) Close() error {
	b.monitor.close()
	b.node.close()
	return nil
}

// MultiSession implements kernels.MultiSession.
func (b *Backend) MultiSession() bool { return true }

// Products implements kernels.ProductRunner.
func (b *Backend) Products() []string { return []string{ep.Gemm, ep.Copy, ep.Step} }

// Precompile implements kernels.Precompiler.
func (b *Backend) Precompile(p ep.Problem, configs []ep.Config) {
	for _, c := range configs {
		units, err := candidateUnits(b.machine, p, c)
		if err != nil {
			continue // Prepare will report it
		}
		for _, u := range units {
			b.node.ahead.Add(u)
		}
	}
}

// Open implements kernels.Backend. Memory is allocated later, when a candidate needs it.
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

// checkPeers checks that all GPUs that the ranks use can address each other.
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

// emptyFold is the number of calls in a round of Empty, and emptyRounds the number of rounds. Empty then
// takes a few milliseconds, and its reading has little noise.
const (
	emptyFold   = 20
	emptyRounds = 20
)

// Empty implements kernels.Clocker. It runs in graph mode on every GPU and returns, for each clock,
// the median over rounds of the slowest rank's seconds.
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
