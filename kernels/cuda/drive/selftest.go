//go:build cuda

package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

// SelfTest runs the litmus tests and writes a line for each of them. A litmus test is a small kernel that checks one
// operation, such as a message from one GPU to another. Messages are passed `rounds` times.
func (b *Backend) SelfTest(ctx context.Context, w io.Writer, rounds int) error {
	ranks := max(2, min(len(b.node.gpus), declare.MaxRanks))
	if err := b.checkPeers(ranks); err != nil {
		return err
	}
	failed := 0
	report := func(name string, err error) {
		result := "ok"
		if err != nil {
			failed++
			result = err.Error()
		}
		fmt.Fprintf(w, "%-36s %s\n", name, result)
	}
	for _, l := range declare.Litmuses(rounds) {
		report(l.Name, b.litmus(ctx, l, ranks))
	}
	if failed > 0 {
		return fmt.Errorf("self test: %d failed", failed)
	}
	return nil
}

// litmus runs the test l once on all ranks and checks the result.
func (b *Backend) litmus(ctx context.Context, l declare.Litmus, ranks int) error {
	p := ep.Problem{Ranks: ranks, Hidden: 128, Experts: 2 * ranks, TopK: 2, Dispatch: ep.BF16}
	r, err := newRankSet(b.node, ranks, b.options.Deadline)
	if err != nil {
		return err
	}
	defer r.close()
	memory := l.State()
	r.refill = func() error { return prepareLitmus(r, l) }
	if err := r.allocate(append(declare.TimingParts(), declare.StateParts(memory, p)...)); err != nil {
		return err
	}
	u, err := declare.NewUnit(declare.LitmusSource, p, nil)
	if err != nil {
		return err
	}
	m, err := b.node.load(u)
	if err != nil {
		return err
	}
	entries, err := m.function(l.Launch.Entry)
	if err != nil {
		return err
	}
	if err := checkResident(r, l.Launch, entries); err != nil {
		return err
	}
	c := &call{declaration: declare.Declaration{State: memory}, launches: []declare.Launch{l.Launch}, entries: [][]cu.Function{entries}, module: m}
	prog, err := newProgram(r, verificationRound(ep.Dispatch, 0), map[ep.Op]*call{ep.Dispatch: c}, r.args, extras{problem: p})
	if err != nil {
		return err
	}
	defer prog.free()
	if _, err := prog.run(ctx, 1, 0); errors.Is(err, errFault) {
		return errors.New(hangReason(r.faults(), r.deadline))
	} else if err != nil {
		return err
	}
	return judgeLitmus(r, l)
}

func prepareLitmus(r *rankSet, l declare.Litmus) error {
	if l.Prepare == nil {
		return nil
	}
	area := make([]byte, l.Area)
	l.Prepare(area)
	for rank := range r.local {
		if err := upload(r, rank, "litmus.area", area); err != nil {
			return err
		}
	}
	return nil
}

func judgeLitmus(r *rankSet, l declare.Litmus) error {
	areas, counters := make([][]byte, len(r.local)), make([][]int32, len(r.local))
	for rank := range r.local {
		var err, cerr error
		areas[rank], err = download[byte](r, rank, "litmus.area", 0, int(l.Area))
		counters[rank], cerr = download[int32](r, rank, "litmus.counters", 0, 3)
		if err := cmp.Or(err, cerr); err != nil {
			return err
		}
	}
	return l.Judge(areas, counters)
}
