//go:build cuda

package main

import (
	"context"
	"encoding/binary"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// Verify implements kernels.Session.
func (s *session) Verify(_ context.Context, c ep.Config) (kernels.Comparison, error) {
	if err := s.hold(c); err != nil {
		return kernels.Comparison{}, err
	}
	combines := s.problem().Op != ep.Dispatch
	if _, err := s.ranks.ask(func(int) request { return request{Prove: &prove{Combine: combines}} }); err != nil {
		return kernels.Comparison{}, s.lost(err)
	}
	s.proved = c
	var sum kernels.Comparison
	for rank := range s.problem().Ranks {
		v, err := s.judge(c, rank)
		if err != nil {
			return sum, err
		}
		sum = ref.Merge(sum, v)
	}
	return sum, nil
}

// judge compares what one rank holds with the oracle.
func (s *session) judge(c ep.Config, rank int) (kernels.Comparison, error) {
	d, k := c, c
	if s.backend.pack == nil {
		var err error
		if d, k, err = s.halves(c); err != nil {
			return kernels.Comparison{}, err
		}
	}
	compare, err := s.compare(d)
	if err != nil {
		return kernels.Comparison{}, err
	}
	got, err := s.output(rank)
	if err != nil {
		return kernels.Comparison{}, err
	}
	v := s.oracle.CheckDispatch(rank, got.Output, compare)
	if got.err != nil || s.problem().Op == ep.Dispatch {
		return v, got.err
	}
	if compare, err = s.compare(k); err != nil {
		return v, err
	}
	w, err := cuda.JudgeCombine(s.oracle, rank, k, compare, func(tokens []int) ([][]uint16, error) { return s.combined(rank, tokens) })
	return ref.Merge(v, w), err
}

// compare is how strictly a config is judged. A pack may choose configs that sum by
// rank, and says nothing of the order of rows.
func (s *session) compare(c ep.Config) (ref.Compare, error) {
	if s.backend.pack == nil {
		return cuda.CompareOf(s.problem(), c)
	}
	return ref.Compare{PreReduced: s.backend.pack.Reduced, MaxRows: max((16<<20)/s.problem().Hidden, 1)}, nil
}

// output is a rank's dispatch output; the first error of a fetch is left here.
type output struct {
	ref.Output
	err error
}

// fetch downloads pieces of a part of a rank's memory.
func (s *session) fetch(rank int, part string, bytes int, offsets ...int64) ([]byte, error) {
	if bytes == 0 || len(offsets) == 0 {
		return nil, nil
	}
	one := &ranks{all: s.ranks.all[rank : rank+1]}
	a, err := one.ask(func(int) request {
		return request{Fetch: &fetch{Part: part, Offsets: offsets, Bytes: int64(bytes)}}
	})
	if err != nil {
		return nil, err
	}
	return a[0].Data, nil
}

// wholeRows is how many bytes of rows are fetched together.
const wholeRows = 32 << 20

func (s *session) output(rank int) (*output, error) {
	p, l := s.problem(), s.oracle.Encoding()
	p.MaxTokens = s.capacity()
	groups, rows := dtype.Groups(p), 0
	want := s.oracle.Dispatch(rank).RowOffsets
	rows = int(want[len(want)-1])
	out := &output{Output: ref.Output{MaxRows: dtype.MaxRows(p)}}
	part := func(name string, bytes int) []byte {
		b, err := s.fetch(rank, name, bytes, 0)
		if err != nil && out.err == nil {
			out.err = err
		}
		return b
	}
	out.RowOffsets, out.ExpertIDs = words[uint32](part("row_offsets", 4*(groups+1))), words[int32](part("expert_ids", 4*groups))
	out.SrcInfo = words[int32](part("src_info", 8*rows))
	switch l.DType {
	case ep.NVFP4:
		out.ScaleOffsets = words[uint32](part("scale_offsets", 4*groups))
		fallthrough
	case ep.MXFP4:
		out.Scales = part("scales", dtype.OutputScaleBytes(l, groups, out.MaxRows))
	case ep.FP8: // each group of columns has room for every row there could be
		offsets := make([]int64, l.Scales)
		for g := range offsets {
			offsets[g] = int64(g) * int64(out.MaxRows) * int64(l.ScaleBytes)
		}
		var err error
		if out.Scales, err = s.fetch(rank, "scales", rows*l.ScaleBytes, offsets...); err != nil {
			return out, err
		}
		out.MaxRows = rows
	}
	s.rows(out, rank, rows, l.Payload)
	return out, out.err
}

// rows fetches all rows at once when few, else those that are asked for.
func (s *session) rows(out *output, rank, rows, rowBytes int) {
	get := func(which []int) []byte {
		offsets := make([]int64, len(which))
		for i, row := range which {
			offsets[i] = int64(row) * int64(rowBytes)
		}
		b, err := s.fetch(rank, "out", rowBytes, offsets...)
		if err != nil && out.err == nil {
			out.err = err
		}
		if len(b) != len(which)*rowBytes {
			b = make([]byte, len(which)*rowBytes)
		}
		return b
	}
	if rows*rowBytes <= wholeRows {
		b, err := s.fetch(rank, "out", rows*rowBytes, 0)
		if err != nil {
			out.err = err
		}
		out.Payload = ref.Flat(b, rowBytes)
		return
	}
	known := map[int][]byte{}
	out.Expect = func(which []int) {
		b := get(which)
		for i, row := range which {
			known[row] = b[i*rowBytes : (i+1)*rowBytes]
		}
	}
	out.Payload = func(row int) []byte {
		if b, ok := known[row]; ok {
			return b
		}
		return get([]int{row})
	}
}

// combined fetches tokens of a rank's combined output.
func (s *session) combined(rank int, tokens []int) ([][]uint16, error) {
	hidden := s.problem().Hidden
	offsets := make([]int64, len(tokens))
	for i, t := range tokens {
		offsets[i] = int64(t) * int64(2*hidden)
	}
	b, err := s.fetch(rank, "combined", 2*hidden, offsets...)
	if err != nil {
		return nil, err
	}
	rows := make([][]uint16, len(tokens))
	for i := range rows {
		rows[i] = words[uint16](b[2*hidden*i : 2*hidden*(i+1)])
	}
	return rows, nil
}

// words reads little-endian integers.
func words[T uint16 | uint32 | int32](b []byte) []T {
	var zero T
	size := binary.Size(zero)
	out := make([]T, len(b)/size)
	_, _ = binary.Decode(b, binary.LittleEndian, out) // the lengths agree
	return out
}

// Probe implements worker.Prober.
func (s *session) Probe(rank, token, k int) ([]uint16, error) {
	if k < 0 {
		rows, err := s.combined(rank, []int{token})
		if err != nil {
			return nil, err
		}
		return rows[0], nil
	}
	from := s.workload.Batch(rank)
	expert := int(s.workload.Ranks[from].Experts[token*s.problem().TopK+k])
	got, err := s.output(s.oracle.Owner(rank, expert))
	if err != nil {
		return nil, err
	}
	return s.oracle.Received(rank, token, k, got.Output)
}
