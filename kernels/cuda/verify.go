//go:build cuda

package cuda

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// judgedElements bounds the elements of a rank that are compared in one
// verification; of more, rows are sampled.
const judgedElements = 16 << 20

// feedRows is how many rows of the dispatch before a combine are compared: enough
// to see that the combine had something to read.
const feedRows = 64

// upload brings the inputs to every rank.
func (s *session) upload() error {
	return sideBySide(len(s.rig.seats), func(rank int) error {
		in := s.inputs[rank]
		return cmp.Or(
			upload(s.rig, rank, partX, in.x),
			upload(s.rig, rank, partIDs, in.ids),
			upload(s.rig, rank, partWeights, in.weights),
			upload(s.rig, rank, partInputScale, []float32{s.backend.options.InputScale}),
			upload(s.rig, rank, partBias, makeBias(s.problem.Hidden)))
	})
}

// Verify implements kernels.Session.
func (s *session) Verify(ctx context.Context, c ep.Config) (kernels.Comparison, error) {
	k, err := s.prepared(c)
	if err != nil {
		return kernels.Comparison{}, err
	}
	if err := s.prove(ctx, k); err != nil {
		return kernels.Comparison{}, err
	}
	compared := make([]kernels.Comparison, len(s.rig.seats))
	err = sideBySide(len(s.rig.seats), func(rank int) (err error) {
		compared[rank], err = s.judge(k, rank)
		return err
	})
	if err != nil {
		return kernels.Comparison{}, err
	}
	var sum kernels.Comparison
	for _, v := range compared {
		sum = ref.Merge(sum, v)
	}
	return sum, nil
}

// prove runs the candidate once from poisoned outputs and fresh inputs.
func (s *session) prove(ctx context.Context, k *candidate) error {
	s.fetched = make([]*output, len(s.rig.seats))
	if err := s.rig.fill(outputParts(s.problem)); err != nil {
		return err
	}
	if err := s.upload(); err != nil {
		return err
	}
	p, err := newProgram(s.rig, proof(s.problem.Op), k.calls, s.args(k.state()), s.extrasFor(k))
	if err != nil {
		return err
	}
	defer p.free()
	return s.attempt(p, func() error {
		_, err := p.run(ctx, 1, 0)
		return err
	})
}

// judge compares what the candidate left on one rank with the oracle.
func (s *session) judge(k *candidate, rank int) (kernels.Comparison, error) {
	d := k.calls[ep.Dispatch]
	got, err := s.dispatched(rank)
	if err != nil {
		return kernels.Comparison{}, err
	}
	compare := s.compare(d)
	if s.problem.Op == ep.Combine {
		compare.MaxRows = min(compare.MaxRows, feedRows)
	}
	v := s.oracle.CheckDispatch(rank, got.Output, compare)
	if got.err != nil {
		return v, got.err
	}
	c := k.calls[ep.Combine]
	if c == nil {
		return v, nil
	}
	w, err := s.judgeCombine(c, rank)
	if s.problem.Op == ep.Combine && v.OK() {
		return w, err // the rows of the dispatch before it do not count
	}
	return ref.Merge(v, w), err
}

// compare is how strictly a call is judged.
func (s *session) compare(k *call) ref.Compare {
	var c ref.Compare
	if k.family.compare != nil {
		c = k.family.compare(k.config)
	}
	c.MaxRows = max(judgedElements/s.problem.Hidden, 1)
	return c
}

// output is a rank's dispatch output. err is the first error of rows that were
// downloaded as they were asked for.
type output struct {
	ref.Output
	err error
}

// dispatched is what dispatch left on a rank in the last proof, downloaded once.
func (s *session) dispatched(rank int) (*output, error) {
	if have := s.fetched[rank]; have != nil {
		return have, nil
	}
	out, err := s.fetch(rank)
	if err == nil {
		s.fetched[rank] = out
	}
	return out, err
}

// fetch downloads indices and scales as a whole, and many rows only as they are
// asked for.
func (s *session) fetch(rank int) (*output, error) {
	l := s.oracle.Encoding()
	want := s.oracle.Dispatch(rank).RowOffsets
	rows := int(want[len(want)-1])
	groups := dtype.Groups(s.problem)
	out := &output{Output: ref.Output{MaxRows: dtype.MaxRows(s.problem)}}
	err := cmp.Or(
		fetchPart(s.rig, rank, partRowOffsets, groups+1, &out.RowOffsets),
		fetchPart(s.rig, rank, partExpertIDs, groups, &out.ExpertIDs),
		fetchPart(s.rig, rank, partSrcInfo, 2*rows, &out.SrcInfo),
		s.fetchScales(out, rank, rows, groups),
		s.fetchRows(out, rank, rows, l.Payload))
	if l.DType == ep.NVFP4 && err == nil {
		err = fetchPart(s.rig, rank, partScaleOffsets, groups, &out.ScaleOffsets)
	}
	return out, err
}

// fetchPart downloads the first n elements of a part.
func fetchPart[T any](r *rig, rank int, part string, n int, to *[]T) (err error) {
	*to, err = download[T](r, rank, part, 0, n)
	return err
}

// fetchScales downloads the whole scale output. FP8 has room for every possible
// row in each group of 128 columns: of it only the rows there are.
func (s *session) fetchScales(out *output, rank, rows, groups int) (err error) {
	l := s.oracle.Encoding()
	if l.DType != ep.FP8 || rows == 0 {
		return fetchPart(s.rig, rank, partScales, dtype.OutputScaleBytes(l, groups, out.MaxRows), &out.Scales)
	}
	offsets := make([]int, l.Scales)
	for g := range offsets {
		offsets[g] = g * out.MaxRows * l.ScaleBytes
	}
	out.MaxRows = rows
	out.Scales, err = s.rig.gather(rank, partScales, offsets, rows*l.ScaleBytes)
	return err
}

// fetchRows downloads all rows at once when they are few.
func (s *session) fetchRows(out *output, rank, rows, rowBytes int) error {
	if rows*s.problem.Hidden > judgedElements {
		s.fetchSampled(out, rank, rowBytes)
		return nil
	}
	var all []byte
	err := fetchPart(s.rig, rank, partOut, rows*rowBytes, &all)
	out.Payload = ref.Flat(all, rowBytes)
	return err
}

// fetchSampled downloads the rows to be compared together, and others as they
// are asked for.
func (s *session) fetchSampled(out *output, rank, rowBytes int) {
	note := func(err error) {
		if err != nil && out.err == nil {
			out.err = err
		}
	}
	expected := map[int][]byte{}
	out.Expect = func(rows []int) {
		buf, err := s.rig.gatherRows(rank, partOut, rows, rowBytes)
		note(err)
		for i, row := range rows {
			expected[row] = buf[i*rowBytes : (i+1)*rowBytes]
		}
	}
	out.Payload = func(row int) []byte {
		if b, ok := expected[row]; ok {
			return b
		}
		b, err := download[byte](s.rig, rank, partOut, row*rowBytes, rowBytes)
		note(err)
		return b
	}
}

// judgeEpilogue is CheckCombine for a combine with an epilogue, which is applied
// to the sum and to its bound; a bias rounds once more.
func judgeEpilogue(o *ref.Oracle, rank, tokens int, hook string, got func(int) []uint16, c ref.Compare) kernels.Comparison {
	v := kernels.Comparison{}
	bias := makeBias(o.Problem().Hidden)
	for t := range tokens {
		v.Rows++
		want := o.CombineRow(rank, t, c.PreReduced)
		for i, b := range got(t) {
			exact, bound := want.Exact[i]*epilogueScale, want.Bound[i]*epilogueScale
			if hook == "bias" {
				exact = want.Exact[i] + float64(ref.BF16ToFloat(bias[i]))
				bound = want.Bound[i] + (math.Abs(exact)+want.Bound[i])/(1<<8)
			}
			diff := math.Abs(float64(ref.BF16ToFloat(b)) - exact)
			if diff <= bound {
				continue
			}
			v.Wrong++
			if v.Detail == "" {
				v.Detail = fmt.Sprintf("rank %d token %d column %d: want %g after the epilogue, got %g", rank, t, i, exact, ref.BF16ToFloat(b))
			}
			break
		}
	}
	return v
}

// Digest implements kernels.Digester.
func (s *session) Digest(ctx context.Context, c ep.Config) (string, error) {
	k, err := s.prepared(c)
	if err != nil {
		return "", err
	}
	if k.calls[ep.Combine] == nil {
		return "", fmt.Errorf("%s combines nothing to digest", c.Key())
	}
	if err := s.prove(ctx, k); err != nil {
		return "", err
	}
	h := sha256.New()
	for rank := range s.rig.seats {
		tokens := s.workload.Ranks[s.workload.Batch(rank)].Tokens
		all, err := download[byte](s.rig, rank, partCombined, 0, 2*tokens*s.problem.Hidden)
		if err != nil {
			return "", err
		}
		h.Write(all)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
