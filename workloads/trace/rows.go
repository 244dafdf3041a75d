package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// rows reads the rows of one layer. `parts` holds the layer's arrays, which are read one after another.
type rows struct {
	parts []*array
	at    []layout
	layer int
	k     int   // elements in a row
	count int64 // rows in all parts

	part int // from 1; 0 before the first
	in   io.ReadCloser
	buf  *bufio.Reader
	done int // rows read of this part
	raw  []byte
}

func newRows(parts []*array, kind Kind, o Options) (*rows, error) {
	r := &rows{parts: parts, layer: max(o.Layer, 0)}
	for i, a := range parts {
		if a.bad != nil {
			return nil, a.bad
		}
		if _, err := elements(a.shape); err != nil {
			return nil, err
		}
		l, err := a.layout(kind, o)
		if err != nil {
			return nil, fmt.Errorf("shape %v: %w", a.shape, err)
		}
		if i > 0 && (l.k != r.k || l.ranks != r.at[0].ranks) {
			return nil, fmt.Errorf("shape %v: the array before it has rows of %d elements", a.shape, r.k)
		}
		if err := checkLayer(l.layers, o.Layer); err != nil {
			return nil, err
		}
		r.at = append(r.at, l)
		r.k, r.count = l.k, r.count+int64(l.rows())
	}
	return r, nil
}

func (a *array) layout(kind Kind, o Options) (layout, error) {
	if len(a.shape) == 0 {
		return layout{}, errors.New("a single number")
	}
	axes, err := a.axesOf(kind, o)
	if err != nil {
		return layout{}, err
	}
	l := layoutOf(a.shape, axes)
	most, what := MaxExperts/max(l.ranks, 1), "experts"
	if kind == IDs {
		most, what = MaxTopK, "top-k"
	}
	if l.k < 1 || l.k > most {
		return l, fmt.Errorf("%s is outside 1 to %d", what, most)
	}
	return l, nil
}

func checkLayer(layers, layer int) error {
	switch {
	case layer < 0 && layers != 1:
		return fmt.Errorf("%d layers: choose one with --layer N, where N is 0 to %d", layers, layers-1)
	case layer >= layers:
		return fmt.Errorf("layer %d is outside 0 to %d", layer, layers-1)
	}
	return nil
}

func (r *rows) read(ids []int32, weights []float32) (int, error) {
	_, n, elem, err := r.next(max(len(ids), len(weights)) / r.k)
	if err != nil {
		return 0, err
	}
	if ids != nil {
		elem.int32s(ids[:n*r.k], r.raw)
	}
	for i := range weights[:min(len(weights), n*r.k)] {
		w := elem.float(r.raw[i*elem.size:])
		if !goodWeight(w) {
			return 0, fmt.Errorf("weight %v: want 0 or a positive number", w)
		}
		weights[i] = float32(w)
	}
	return n, nil
}

func goodWeight(w float64) bool { return w >= 0 && !math.IsInf(w, 1) }

const sumElements = 1 << 16

func (r *rows) sum() ([]int64, error) {
	sum := make([]int64, r.k*r.at[0].ranks)
	for {
		first, n, elem, err := r.next(max(1, sumElements/r.k))
		for i := 0; err == nil && i < n; i++ {
			from := r.at[0].rankOf(first+i) * r.k
			err = elem.add(sum[from:from+r.k], from, r.raw[i*r.k*elem.size:])
		}
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			r.close()
			return nil, err
		}
	}
}

func layerTotals(parts []*array, kind Kind, o Options) ([]int64, error) {
	var totals []int64
	for _, a := range parts {
		l, err := a.layout(kind, o)
		if err != nil {
			return nil, err
		}
		for len(totals) < l.layers {
			totals = append(totals, 0)
		}
		if err := a.addTotals(totals, l, kind); err != nil {
			return nil, err
		}
	}
	return totals, nil
}

func (a *array) addTotals(totals []int64, l layout, kind Kind) error {
	in, err := a.open()
	if err != nil {
		return err
	}
	defer in.Close()
	buf, row := bufio.NewReaderSize(in, 1<<20), make([]byte, l.k*a.elem.size)
	for i := range l.outer * l.layers * l.inner {
		if _, err := io.ReadFull(buf, row); err != nil {
			return errors.New("truncated: the data ends before the last row")
		}
		layer := i / l.inner % l.layers
		for j := 0; j < len(row); j += a.elem.size {
			switch v := a.elem.float(row[j:]); {
			case kind == Counts && v > 0 && v <= maxCount:
				totals[layer] = min(totals[layer]+int64(v), maxCount)
			case kind == IDs && v >= 0:
				totals[layer]++
			}
		}
	}
	return nil
}

func withSelections(totals []int64) (out []int) {
	for layer, n := range totals {
		if n > 0 {
			out = append(out, layer)
		}
	}
	return out
}

// noteTotals adds a note if another layer has another number of selections than the given layer. Every token goes
// through every layer, so the numbers should be equal.
func (r *Reader) noteTotals(layer int, totals []int64) {
	layer = max(layer, 0)
	if layer >= len(totals) || totals[layer] == 0 {
		return
	}
	for other, n := range totals {
		if n > 0 && n != totals[layer] {
			r.note("layer %d has %d selections and layer %d has %d: the layers saw different tokens, or a count is wrong", layer, totals[layer], other, n)
			return
		}
	}
}

// next reads up to n rows into r.raw. next returns the index of the first row, the number of rows,
// and their type.
func (r *rows) next(n int) (first, count int, e elem, err error) {
	for r.part == 0 || r.done == r.at[r.part-1].rows() {
		if err := r.advance(); err != nil {
			return 0, 0, elem{}, err
		}
	}
	a, l := r.parts[r.part-1], r.at[r.part-1]
	if r.done > 0 && r.done%l.inner == 0 { // skip the other layers
		if err := skip(r.buf, int64(l.layers-1)*int64(l.inner)*int64(l.k*a.elem.size)); err != nil {
			return 0, 0, a.elem, errors.New("truncated: the data ends before the last row")
		}
	}
	n = min(n, l.inner-r.done%l.inner)
	if size := n * l.k * a.elem.size; cap(r.raw) < size {
		r.raw = make([]byte, size)
	}
	r.raw = r.raw[:n*l.k*a.elem.size]
	if _, err := io.ReadFull(r.buf, r.raw); err != nil {
		return 0, 0, a.elem, errors.New("truncated: the data ends before the last row")
	}
	first = r.done
	r.done += n
	return first, n, a.elem, nil
}

func (r *rows) advance() error {
	if err := r.close(); err != nil {
		return err
	}
	if r.part == len(r.parts) {
		return io.EOF
	}
	a, l := r.parts[r.part], r.at[r.part]
	r.part++
	r.done = 0
	if l.rows() == 0 {
		return nil
	}
	in, err := a.open()
	if err != nil {
		return err
	}
	r.in, r.buf = in, bufio.NewReaderSize(in, 1<<20)
	if err := skip(r.buf, int64(r.layer)*int64(l.inner)*int64(l.k*a.elem.size)); err != nil {
		return errors.New("truncated: the data ends before the layer")
	}
	return nil
}

func (r *rows) close() error {
	if r.in == nil {
		return nil
	}
	err := r.in.Close()
	r.in = nil
	return err
}

func skip(r io.Reader, n int64) error {
	_, err := io.CopyN(io.Discard, r, n)
	return err
}

func after(start int64, open func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		in, err := open()
		if err != nil {
			return nil, err
		}
		if err := skip(in, start); err != nil {
			in.Close()
			return nil, err
		}
		return in, nil
	}
}

// logitRows turns rows of logits into the ids of the topK largest logits, in descending order.
type logitRows struct {
	*rows
	topK int
	best []int32
}

func (r *logitRows) read(ids []int32, _ []float32) (int, error) {
	_, n, elem, err := r.next(max(1, len(ids)/r.topK))
	if err != nil {
		return 0, err
	}
	for row := range n {
		raw := r.raw[row*r.k*elem.size:]
		value := func(e int32) float64 { return elem.float(raw[int(e)*elem.size:]) }
		r.best = r.best[:0]
		for e := range int32(r.k) {
			if math.IsNaN(value(e)) {
				return 0, fmt.Errorf("the logit of expert %d is NaN", e)
			}
			r.best = append(r.best, e)
		}
		slices.SortStableFunc(r.best, func(a, b int32) int {
			switch x, y := value(a), value(b); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		copy(ids[row*r.topK:], r.best[:r.topK])
	}
	return n, nil
}
