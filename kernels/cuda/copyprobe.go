//go:build cuda

package cuda

import (
	"context"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/tune/ep"
)

// Copy times a probe on all GPUs at once, by the clock chain: seconds of the slowest rank,
// one for each round. A round is the mean of several copies.
func (b *Backend) Copy(ctx context.Context, p CopyProbe, rounds int) ([]float64, error) {
	ranks := min(len(b.node.gpus), maxRanks)
	if err := p.Check(b.node.gpus[0].sms); err != nil {
		return nil, err
	}
	if err := b.checkPeers(ranks); err != nil {
		return nil, err
	}
	r, err := newRig(b.node, ranks, b.options.Deadline)
	if err != nil {
		return nil, err
	}
	defer r.close()
	memory := p.state()
	of := ep.Problem{Ranks: ranks, Hidden: 128, Experts: 2 * ranks, TopK: 2, Dispatch: ep.BF16}
	if err := r.allocate(append(rigParts(), stateParts(memory, of)...)); err != nil {
		return nil, err
	}
	c, err := p.call(r, memory)
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

// copyFold copies make up a round.
const copyFold = 4

func (p CopyProbe) call(r *rig, memory state) (*call, error) {
	m, err := r.node.load(Unit{Source: copySource})
	if err != nil {
		return nil, err
	}
	l := p.launch()
	entries, err := m.function(l.entry)
	if err != nil {
		return nil, err
	}
	if err := checkResident(r, l, entries); err != nil {
		return nil, err
	}
	return &call{family: family{state: memory}, launches: []launch{l}, entries: [][]cu.Function{entries}, module: m}, nil
}
