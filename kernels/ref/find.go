package ref

import "fmt"

// Received returns the [hidden] BF16 values that the k-th expert of a token received. `source` is the rank that
// sent the token.
func (o *Oracle) Received(source, token, k int, delivered func(rank int) (Output, error)) ([]uint16, error) {
	p := o.w.Problem
	e := int(o.w.Ranks[o.w.BatchRank(source)].Experts[token*p.TopK+k])
	if e < 0 {
		return nil, fmt.Errorf("token %d of rank %d has no expert at position %d", token, source, k)
	}
	dst := o.owner(source, e)
	got, err := delivered(dst)
	if err != nil {
		return nil, err
	}
	d := o.Dispatch(dst)
	j := &judge{rank: dst}
	if !o.checkIndex(j, d, got) {
		return nil, fmt.Errorf("%s", j.Detail)
	}
	r := rowCheck{o: o, j: j, got: got}
	group := e
	if p.Layout.ByRank() {
		group, k = source, source
	}
	for i, g := range d.Groups {
		if g.Expert == group && r.seek(d, i, source, Item{token, k}) {
			return r.widened()
		}
	}
	return nil, fmt.Errorf("rank %d has no row for token %d, k %d of rank %d", dst, token, k, source)
}

func (o *Oracle) owner(source, expert int) int {
	if o.w.Problem.SkipA2A {
		return source
	}
	return expert / o.w.Problem.LocalExperts()
}

func (r *rowCheck) seek(d Delivery, i, source int, want Item) bool {
	r.enter(d, i)
	for s, items := range r.group.Items {
		for range items {
			from := r.group.Sources[s] == r.o.w.BatchRank(source)
			if from && int(r.got.SrcInfo[2*r.row]) == want.Token && int(r.got.SrcInfo[2*r.row+1]) == want.K {
				return true
			}
			r.row, r.inGroup = r.row+1, r.inGroup+1
		}
	}
	return false
}

func (r *rowCheck) widened() ([]uint16, error) {
	l := r.o.Encoding()
	row := Row{r.got.Payload(r.row), r.scales()}
	if len(row.Payload) != l.Payload || len(row.Scales) != l.Scales*l.ScaleBytes {
		return nil, fmt.Errorf("row %d is cut short", r.row)
	}
	out := make([]uint16, l.Hidden)
	for c, x := range Dequantize(l.DType, row, l.Hidden, r.o.global) {
		out[c] = BF16(x)
	}
	return out, nil
}
