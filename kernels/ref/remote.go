package ref

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Memory reads pieces of a part of a rank's memory. At each of `offsets` begins a piece of `bytes` bytes. The pieces
// stay valid until the part's next read. Several goroutines may call a Memory at the same time.
type Memory func(rank int, part string, bytes int, offsets ...int) ([][]byte, error)

// Pieces cuts data into pieces of `bytes` bytes.
func Pieces(data []byte, bytes int) (pieces [][]byte) {
	for at := 0; at < len(data); at += bytes {
		pieces = append(pieces, data[at:min(at+bytes, len(data))])
	}
	return pieces
}

// contiguous concatenates pieces, without a copy if they are adjacent.
func contiguous(pieces [][]byte) []byte {
	if len(pieces) == 0 {
		return nil
	}
	n, all := 0, pieces[0][:cap(pieces[0])]
	for _, p := range pieces {
		if len(p) == 0 || n+len(p) > len(all) || &all[n] != &p[0] {
			return slices.Concat(pieces...)
		}
		n += len(p)
	}
	return all[:n]
}

// The parts of a rank's memory, named like the fields of EpArgs.
const (
	PartOut          = "out"
	PartScales       = "out_scales"
	PartRowOffsets   = "row_offsets"
	PartExpertIDs    = "expert_ids"
	PartSrcInfo      = "src_info"
	PartScaleOffsets = "scale_offsets"
	PartCombined     = "combined"
)

const feedRows = 64

// wholeElements is the largest output, in elements, that fetch reads whole.
const wholeElements = 16 << 20

// Remote compares outputs in memory that this program cannot address.
type Remote struct {
	oracle   *Oracle
	maxRows  int
	whole    int // wholeElements, or less
	read     Memory
	reading  []float64 // seconds of reading in Judge, by rank
	verified []*verifiedBits
	fetched  []*fetched // by rank; nil after Forget
}

// NewRemote returns a Remote. maxRows is the number of rows for which the scale output has room.
func NewRemote(o *Oracle, maxRows int, read Memory) *Remote {
	r := &Remote{oracle: o, maxRows: maxRows, whole: wholeElements, reading: make([]float64, len(o.w.Ranks))}
	r.read = func(rank int, part string, bytes int, offsets ...int) ([][]byte, error) {
		start := time.Now()
		defer func() { r.reading[rank] += time.Since(start).Seconds() }()
		return read(rank, part, bytes, offsets...)
	}
	for range o.w.Ranks {
		r.verified = append(r.verified, newVerifiedBits())
	}
	return r
}

// Forget drops the outputs that were read. Call Forget when memory changes.
func (r *Remote) Forget() { r.fetched = nil }

// Judge compares the outputs of an op on all ranks.
func (r *Remote) Judge(op ep.Op, dispatch, combine Compare) (kernels.Comparison, error) {
	start, ranks := time.Now(), len(r.oracle.w.Ranks)
	clear(r.reading)
	r.fetched = make([]*fetched, ranks)
	found, errs := make([]kernels.Comparison, ranks), make([]error, ranks)
	parallel(ranks, func(rank int) { found[rank], errs[rank] = r.judge(op, rank, dispatch, combine) })
	if err := cmp.Or(errs...); err != nil {
		return kernels.Comparison{}, err
	}
	var sum kernels.Comparison
	for _, v := range found {
		sum = Merge(sum, v)
	}
	for _, seconds := range r.reading {
		sum.Took.Reading += seconds / float64(ranks)
	}
	sum.Took.Comparing = time.Since(start).Seconds() - sum.Took.Reading
	return sum, nil
}

func (r *Remote) judge(op ep.Op, rank int, dispatch, combine Compare) (kernels.Comparison, error) {
	if op == ep.Combine {
		dispatch.MaxRows = feedRows
	}
	got, err := r.dispatched(rank)
	if err != nil {
		return kernels.Comparison{}, err
	}
	v := r.oracle.CheckDispatch(rank, got.Output, dispatch)
	if got.err != nil || op == ep.Dispatch {
		return v, got.err
	}
	w, err := r.combined(rank, combine)
	if op == ep.Combine && v.OK() {
		return w, err
	}
	return Merge(v, w), err
}

func (r *Remote) combined(rank int, c Compare) (kernels.Comparison, error) {
	picked, size := r.oracle.CombinePicks(rank, c), 2*r.oracle.w.Problem.Hidden
	rows, err := r.pieces(rank, PartCombined, size, picked)
	if err != nil {
		return kernels.Comparison{}, err
	}
	token := func(t int) []uint16 {
		i, _ := slices.BinarySearch(picked, t)
		return numbers[uint16](rows[i])
	}
	check := func() kernels.Comparison { return r.oracle.CheckCombine(rank, token, c) }
	if c.Epilogue != nil {
		return check(), nil
	}
	return r.verified[rank].check(c, rows, check), nil
}

type fetched struct {
	Output
	err error
}

func (f *fetched) note(err error) { f.err = cmp.Or(f.err, err) }

func (r *Remote) dispatched(rank int) (*fetched, error) {
	if have := r.fetched[rank]; have != nil {
		return have, nil
	}
	out := r.fetch(rank)
	if out.err == nil {
		r.fetched[rank] = out
	}
	return out, out.err
}

// fetch reads a rank's output of dispatch. It leaves out the rows of large outputs.
func (r *Remote) fetch(rank int) *fetched {
	l, d := r.oracle.Encoding(), r.oracle.Dispatch(rank)
	groups := len(d.Groups)
	rows, p := d.End, r.oracle.w.Problem
	out := &fetched{Output: Output{MaxRows: r.maxRows}}
	part := func(name string, bytes int, offsets ...int) []byte {
		if bytes == 0 {
			return nil
		}
		b, err := r.read(rank, name, bytes, offsets...)
		out.note(err)
		return contiguous(b)
	}
	out.RowOffsets = numbers[uint32](part(PartRowOffsets, 4*(groups+1), 0))
	switch p.Layout.Kind() {
	case "expert":
		out.ExpertIDs = numbers[int32](part(PartExpertIDs, 4*groups, 0))
		if l.DType == ep.NVFP4 {
			out.ScaleOffsets = numbers[uint32](part(PartScaleOffsets, 4*groups, 0))
		}
	case "masked":
		out.Ranges = numbers[uint64](part(PartExpertIDs, 8*groups*p.Ranks, 0))
	case "rank":
		out.Experts = numbers[int32](part(PartExpertIDs, 4*rows*p.TopK, 0))
		out.Weights = numbers[float32](part(PartScaleOffsets, 4*rows*p.TopK, 0))
	}
	out.SrcInfo = numbers[int32](part(PartSrcInfo, 8*rows, 0))
	if l.DType == ep.FP8 && p.Layout.Kind() == "expert" {
		offsets := make([]int, l.Scales)
		for g := range offsets {
			offsets[g] = g * r.maxRows * l.ScaleBytes
		}
		out.Scales, out.MaxRows = part(PartScales, rows*l.ScaleBytes, offsets...), rows
	} else {
		out.Scales = part(PartScales, dtype.OutputScaleBytes(l, groups, r.maxRows), 0)
	}
	if rows*l.Hidden <= r.whole {
		out.Payload = Flat(part(PartOut, rows*l.Payload, 0), l.Payload)
	} else {
		r.sample(out, rank, l.Payload)
	}
	return out
}

// sample makes `out` read rows when they are compared.
func (r *Remote) sample(out *fetched, rank, rowBytes int) {
	known := map[int][]byte{}
	fetch := func(rows []int) {
		clear(known)
		b, err := r.pieces(rank, PartOut, rowBytes, rows)
		out.note(err)
		for i := range b {
			known[rows[i]] = b[i]
		}
	}
	out.Expect = fetch
	out.Payload = func(row int) []byte {
		if known[row] == nil {
			fetch([]int{row})
		}
		return known[row]
	}
}

func (r *Remote) pieces(rank int, part string, rowBytes int, rows []int) ([][]byte, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	offsets := make([]int, len(rows))
	for i, row := range rows {
		offsets[i] = row * rowBytes
	}
	return r.read(rank, part, rowBytes, offsets...)
}

// Probe returns [hidden] BF16 values: a token's combined row for k = -1, else the row that its k-th expert received.
func (r *Remote) Probe(rank, token, k int) ([]uint16, error) {
	w := r.oracle.w
	if rank < 0 || rank >= len(w.Ranks) || token < 0 || token >= w.Ranks[w.BatchRank(rank)].Tokens || k >= w.Problem.TopK {
		return nil, fmt.Errorf("probe: there is no rank %d token %d k %d", rank, token, k)
	}
	if k < 0 {
		b, err := r.pieces(rank, PartCombined, 2*w.Problem.Hidden, []int{token})
		if err != nil {
			return nil, err
		}
		return numbers[uint16](b[0]), nil
	}
	if r.fetched == nil {
		return nil, errors.New("probe: nothing was verified since the last run")
	}
	return r.oracle.Received(rank, token, k, func(owner int) (Output, error) {
		got, err := r.dispatched(owner)
		return got.Output, err
	})
}

// numbers views memory as numbers. GPUs have this host's byte order.
func numbers[T uint16 | uint32 | int32 | uint64 | float32](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
