package workloads

import (
	"fmt"
	"io"

	"github.com/epbench/epbench/workloads/trace"
)

// replay is a recorded routing. The tokens of rank 0, then of rank 1 and so on, take the rows of the trace in order.
// After the last row, the first row follows again. If the trace has a larger top-k than the problem, only the first ids
// of a row are used, and their weights are scaled to the sum 1. A trace of counts has no rows: experts are drawn with
// the recorded shares.
type replay struct{ file, digest string }

var traceKind = kind{
	name: "trace", file: true,
	doc:   "replays a recorded routing, FILE.npy .npz .pt .csv .jsonl .json; see epbench docs traces for the rule",
	build: func(a args, r *recipe) error { r.law = replay{a.file, a.digest}.prepare; return nil },
}

func (f replay) prepare(s drawRequest) (filler, error) {
	digest, err := fileDigest(f.file)
	if err == nil && f.digest != "" && digest != f.digest {
		err = fmt.Errorf("%s holds another routing: its digest is %s, not %s", f.file, digest, f.digest)
	}
	if err != nil {
		return nil, err
	}
	r, err := trace.Open(f.file, trace.Options{Layer: -1})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Kind == trace.Counts {
		counts, err := r.ReadCounts()
		if err != nil {
			return nil, err
		}
		return fromCounts(s, f.file, counts)
	}
	if r.TopK < s.TopK {
		return nil, fmt.Errorf("%s: has %d experts per token, but the problem has top-%d; use --topk %d", f.file, r.TopK, s.TopK, r.TopK)
	}
	return fromRows(s, f.file, r)
}

func fromCounts(s drawRequest, name string, counts []int64) (filler, error) {
	load, selected := make([]float64, s.Experts), 0
	for e, n := range counts {
		if n == 0 {
			continue
		}
		if e >= s.Experts {
			return nil, tooFewExperts(name, e, s.Experts)
		}
		load[e] = float64(n)
		selected++
	}
	if selected < s.TopK {
		return nil, fmt.Errorf("%s: only %d experts were selected; top-%[3]d needs at least %[3]d", name, selected, s.TopK)
	}
	return eachToken(newPoisson(shares(load, s.TopK), s.TopK).draw), nil
}

func tooFewExperts(name string, e, experts int) error {
	return fmt.Errorf("%s: has expert %d, but the problem has %d experts; raise --experts or choose the --model with which the file was recorded", name, e, experts)
}

type recordedRows struct {
	k       int
	ids     []int32   // [rows, k]
	weights []float32 // [rows, k] or nil
}

func fromRows(s drawRequest, name string, r *trace.Reader) (filler, error) {
	t, need := &recordedRows{k: s.TopK}, max(s.rows(), 1)*s.steps()
	ids, ws := make([]int32, 1024*r.TopK), []float32(nil)
	if r.Weights {
		ws = make([]float32, len(ids))
	}
	for len(t.ids) < need*t.k {
		n, err := r.Read(ids, ws)
		for i := range min(n, need-len(t.ids)/t.k) {
			t.ids = append(t.ids, ids[i*r.TopK:][:t.k]...)
			if ws != nil {
				t.weights = append(t.weights, ws[i*r.TopK:][:t.k]...)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(t.ids) == 0 {
		return nil, fmt.Errorf("%s: has no rows", name)
	}
	for _, e := range t.ids {
		if int(e) >= s.Experts {
			return nil, tooFewExperts(name, int(e), s.Experts)
		}
	}
	return t, nil
}

func (t *recordedRows) fill(_ *rng, c chunk) {
	for i := range len(c.ids) / t.k {
		at := (c.total + i) % (len(t.ids) / t.k) * t.k
		copy(c.ids[i*t.k:], t.ids[at:at+t.k])
	}
}

func (t *recordedRows) weigh(c chunk, w []float32) {
	for i := 0; i < len(w); i += t.k {
		if t.weights != nil {
			at := (c.total + i/t.k) % (len(t.ids) / t.k) * t.k
			copy(w[i:], t.weights[at:at+t.k])
		}
		for j, e := range c.ids[i : i+t.k] {
			if e < 0 {
				w[i+j] = 0
			}
		}
		normalise(w[i : i+t.k])
	}
}
