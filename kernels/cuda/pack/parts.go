package pack

import (
	"cmp"
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/ep"
)

// run adds a range of token counts with the same configs to the pack, in parts. Every launch of a part takes the shared
// memory that the part's largest token count needs. More parts leave less shared memory unused. Unused shared memory
// can keep the next kernel off an SM.
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

// spareShared limits the unused shared memory of a launch to 1/spareShared of the memory that it needs.
const spareShared = 8

// partOf returns the last token count of the part that begins at lo. Shared memory never shrinks as tokens grow.
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
	if !fits(last) {
		last = lo + sort.Search(run.Hi-lo, func(i int) bool { return !fits(lo + 1 + i) })
	}
	return last, err
}

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
