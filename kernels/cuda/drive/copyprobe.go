//go:build cuda

package drive

import (
	"context"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// Copy times a copy probe on all GPUs at once. For each round it returns the seconds of one copy on the slowest rank.
func (b *Backend) Copy(ctx context.Context, p declare.CopyProbe, rounds int) ([]float64, error) {
	ranks := min(len(b.node.gpus), declare.MaxRanks)
	if err := p.Check(b.node.gpus[0].sms); err != nil {
		return nil, err
	}
	if err := b.checkPeers(ranks); err != nil {
		return nil, err
	}
	r, err := newRankSet(b.node, ranks, b.options.Deadline)
	if err != nil {
		return nil, err
	}
	defer r.close()
	memory := p.State()
	of := ep.Problem{Ranks: ranks, Hidden: 128, Experts: 2 * ranks, TopK: 2, Dispatch: ep.BF16}
	if err := r.allocate(append(declare.TimingParts(), declare.StateParts(memory, of)...)); err != nil {
		return nil, err
	}
	c, err := copyCall(r, p, memory)
	if err != nil {
		return nil, err
	}
	s := newSchedule(timing{op: ep.Dispatch, mode: ep.Graph, clock: clockChain, fold: copyFold})
	prog, err := newProgram(r, s, map[ep.Op]*call{ep.Dispatch: c}, r.args, extras{problem: of})
	if err != nil {
		return nil, err
	}
	defer prog.free()
	times, err := prog.measure(ctx, rounds)
	return slowestOf(times), err
}

const copyFold = 4

func copyCall(r *rankSet, p declare.CopyProbe, memory declare.State) (*call, error) {
	m, err := r.node.load(sources.Unit{Source: sources.CopySource})
	if err != nil {
		return nil, err
	}
	l := p.Launch()
	entries, err := m.function(l.Entry)
	if err != nil {
		return nil, err
	}
	if err := checkResident(r, l, entries); err != nil {
		return nil, err
	}
	return &call{declaration: declare.Declaration{State: memory}, launches: []declare.Launch{l}, entries: [][]cu.Function{entries}, module: m}, nil
}
