//go:build cuda

package cuda

import (
	"context"
	"fmt"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/tune/ep"
)

// CopyProbe is a plain copy of rows on every rank: what SMs can move at best. Rank r
// copies Home rows of RowBytes within its GPU and Away rows to the next rank.
type CopyProbe struct {
	SMs, Home, Away, RowBytes int
}

// Check names the field that is out of bounds.
func (p CopyProbe) Check(sms int) error {
	switch {
	case p.SMs < 1 || p.SMs > sms:
		return fmt.Errorf("sms: %d, use 1 to %d", p.SMs, sms)
	case p.RowBytes < 16 || p.RowBytes > 1<<20 || p.RowBytes%16 != 0:
		return fmt.Errorf("row-bytes: %d, use a multiple of 16 up to %d", p.RowBytes, 1<<20)
	case p.Home < 0 || p.Away < 0 || p.Home+p.Away < 1 || p.Home+p.Away > 1<<30:
		return fmt.Errorf("home, away: %d and %d rows, use 1 to %d in all", p.Home, p.Away, 1<<30)
	}
	return nil
}

// rows is how many rows a half of the work area holds: 256 MiB, beyond every L2 cache.
func (p CopyProbe) rows() int { return min(p.Home+p.Away, scratchBytes/p.RowBytes) }

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
	area := Region{"area", 2 * int64(p.rows()) * int64(p.RowBytes), 0}
	memory := state{"copy", func(ep.Problem) []Region { return []Region{area} }, func(ep.Problem) int { return 1 }}
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
	l := launch{entry: "beside_copy", grid: p.SMs, block: 512,
		params: launchParams{own: litmusMemcpyParams{cases: p.Home, step: p.Away, cellBytes: p.RowBytes, peer: p.rows()}}}
	entries, err := m.function(l.entry)
	if err != nil {
		return nil, err
	}
	if err := checkResident(r, l, entries); err != nil {
		return nil, err
	}
	return &call{family: family{state: memory}, launches: []launch{l}, entries: [][]cu.Function{entries}, module: m}, nil
}
