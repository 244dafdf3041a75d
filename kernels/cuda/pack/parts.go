package pack

import (
	"cmp"
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/ep"
)

// run adds a run, a range of token counts. If more tokens need more shared memory, the run is split into
// parts. epbench measures each token count with the shared memory that it needs. With the shared memory of
// the run's largest count, a call might leave no room on an SM for the kernel that begins while the call
// ends.
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

// spareShared bounds the shared memory that a launch gets beyond its need: 1/spareShared of the need.
// Without such spare memory there would be a part for every 32 tokens, 128 parts up to 4,096 tokens.
const spareShared = 8

// partOf returns the last token count of the part that begins at lo. It relies on the shared memory
// never shrinking as tokens grow.
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
	if !fits(last) { // for most kernels the whole run is one part
		last = lo + sort.Search(run.Hi-lo, func(i int) bool { return !fits(lo + 1 + i) })
	}
	return last, err
}

// shared returns the dynamic shared memory, in bytes, of every launch of a run at a token count.
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
