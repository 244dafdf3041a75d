package pack

import (
	"cmp"
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/ep"
)

// run adds a stretch of token counts, in parts where more tokens take more shared memory.
// bench launches with what its token count needs. A call that had the most of its row could
// leave no room on an SM for the kernel that may begin while it drains.
func (b *builder) run(v *resolver, run Run) error {
	for lo := run.Lo; lo <= run.Hi; {
		hi, err := v.partOf(run, lo)
		if err != nil {
			return err
		}
		plan, err := b.plan(v, run.Pair, hi)
		if err != nil {
			return err
		}
		elsewhere, err := b.plan(v, run.Elsewhere, hi)
		if err != nil {
			return err
		}
		b.runs = append(b.runs, runRecord{uint32(hi), plan, elsewhere, b.text(run.Text)})
		lo = hi + 1
	}
	return nil
}

// spareShared is the share of shared memory that a call may have and not need: an eighth,
// since one part for each 32 tokens would be 128 of them at 4,096.
const spareShared = 8

// partOf is the last token count of the part of a run that begins at lo. Shared memory never
// falls with the count.
func (v *resolver) partOf(run Run, lo int) (int, error) {
	least, err := v.shared(run, lo)
	if err != nil {
		return 0, err
	}
	fits := func(tokens int) bool {
		got, failed := v.shared(run, tokens)
		err = cmp.Or(err, failed)
		return slices.EqualFunc(got, least, func(bytes, need int) bool { return bytes <= need+need/spareShared })
	}
	last := run.Hi
	if !fits(last) { // which most kernels do
		last = lo + sort.Search(run.Hi-lo, func(i int) bool { return !fits(lo + 1 + i) })
	}
	return last, err
}

// shared is the dynamic shared memory, in bytes, of every launch of a run at a token count.
func (v *resolver) shared(run Run, tokens int) (out []int, err error) {
	for _, call := range []struct {
		op ep.Op
		c  ep.Config
	}{
		{ep.Dispatch, run.Pair.Dispatch}, {ep.Combine, run.Pair.Combine},
		{ep.Dispatch, run.Elsewhere.Dispatch}, {ep.Combine, run.Elsewhere.Combine},
	} {
		s, err := v.describe(call.op, call.c, tokens)
		if err != nil {
			return nil, err
		}
		for _, l := range s.Launches {
			out = append(out, l.Shared)
		}
	}
	return out, nil
}
