package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
)

// rows streams one layer of arrays, part after part.
type rows struct {
	parts []*array
	layer int
	k     int   // elements of a row
	count int64 // rows of all parts

	part int           // being read, from 1
	in   io.ReadCloser // nil between parts
	buf  *bufio.Reader
	left int64 // rows of this part
	raw  []byte
}

func newRows(parts []*array, kind Kind, o Options, tokensFirst bool) (*rows, error) {
	r := &rows{parts: parts, layer: max(o.Layer, 0)}
	for i, a := range parts {
		if _, err := elements(a.shape); err != nil {
			return nil, err
		}
		if err := a.findAxes(kind, tokensFirst); err != nil {
			return nil, fmt.Errorf("shape %v: %w", a.shape, err)
		}
		if i > 0 && a.k != r.k {
			return nil, fmt.Errorf("shape %v: rows had %d elements before", a.shape, r.k)
		}
		if err := checkLayer(a.layers, o.Layer); err != nil {
			return nil, err
		}
		r.k, r.count = a.k, r.count+int64(a.rows)
	}
	return r, nil
}

// findAxes says what the axes of an array are. Ids are [tokens, top-k],
// [layers, tokens, top-k] (SGLang) or [tokens, layers, top-k] (vLLM). Counts are
// [experts], [layers, experts] or [steps, layers, experts]; a row is a step.
func (a *array) findAxes(kind Kind, tokensFirst bool) error {
	s, most, what := a.shape, MaxTopK, "top-k"
	switch n := len(s); {
	case kind == Counts && n > 0 && n < 4:
		s, most, what = append([]int{1, 1}, s...)[n-1:], MaxExperts, "experts"
		tokensFirst = true
	case kind == Counts:
		return errors.New("counts are [experts], [layers, experts] or [steps, layers, experts]")
	case n == 2:
		s, tokensFirst = []int{1, s[0], s[1]}, false
	case n != 3:
		return errors.New("ids are [tokens, top-k] or have a third axis of layers")
	}
	if a.k = s[2]; a.k < 1 || a.k > most {
		return fmt.Errorf("%s is outside 1 to %d", what, most)
	}
	a.layers, a.rows, a.rowsFirst = s[0], s[1], tokensFirst
	if tokensFirst {
		a.layers, a.rows = a.rows, a.layers
	}
	return nil
}

// checkLayer asks for a layer where there are several.
func checkLayer(layers, layer int) error {
	switch {
	case layer < 0 && layers != 1:
		return fmt.Errorf("%d layers: choose one, epbench workload import FILE --layer 0 to %d", layers, layers-1)
	case layer >= layers:
		return fmt.Errorf("layer %d is outside 0 to %d", layer, layers-1)
	}
	return nil
}

// read fills ids or weights, the one that is not nil, with whole rows.
func (r *rows) read(ids []int32, weights []float32) (int, error) {
	n, elem, err := r.next(max(len(ids), len(weights)) / r.k)
	if err != nil {
		return 0, err
	}
	if ids != nil {
		elem.int32s(ids[:n*r.k], r.raw)
	}
	for i := range weights[:min(len(weights), n*r.k)] {
		w := elem.float(r.raw[i*elem.size:])
		if !goodWeight(w) {
			return 0, fmt.Errorf("weight %v is not a number of at least 0", w)
		}
		weights[i] = float32(w)
	}
	return n, nil
}

func goodWeight(w float64) bool { return w >= 0 && !math.IsInf(w, 1) }

// sumElements is how many elements sum reads at once.
const sumElements = 1 << 16

// sum adds up the rows of counts.
func (r *rows) sum() ([]int64, error) {
	sum := make([]int64, r.k)
	for {
		n, elem, err := r.next(max(1, sumElements/r.k))
		for i := 0; err == nil && i < n; i++ {
			err = elem.add(sum, r.raw[i*r.k*elem.size:])
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

// next reads the bytes of n rows into r.raw, or of as many as the part has left.
func (r *rows) next(n int) (int, elem, error) {
	for r.left == 0 {
		if err := r.advance(); err != nil {
			return 0, elem{}, err
		}
	}
	a := r.parts[r.part-1]
	n = int(min(int64(n), r.left))
	if size := n * a.rowBytes(); cap(r.raw) < size {
		r.raw = make([]byte, size)
	}
	r.raw = r.raw[:n*a.rowBytes()]
	err := r.fill(a, r.raw)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("truncated: the data ends within the last %d rows that the header promises", r.left)
	}
	r.left -= int64(n)
	return n, a.elem, err
}

func (a *array) rowBytes() int { return a.k * a.elem.size }

// fill reads the bytes of rows and skips the other layers between them.
func (r *rows) fill(a *array, raw []byte) error {
	if !a.rowsFirst || a.layers == 1 {
		_, err := io.ReadFull(r.buf, raw)
		return err
	}
	for size := a.rowBytes(); len(raw) > 0; raw = raw[size:] {
		err := skip(r.buf, int64(r.layer*size))
		if err == nil {
			_, err = io.ReadFull(r.buf, raw[:size])
		}
		if err == nil {
			err = skip(r.buf, int64((a.layers-1-r.layer)*size))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// advance opens the next part at the chosen layer.
func (r *rows) advance() error {
	if err := r.close(); err != nil {
		return err
	}
	if r.part == len(r.parts) {
		return io.EOF
	}
	a := r.parts[r.part]
	r.part++
	if a.rows == 0 {
		return nil
	}
	in, err := a.open()
	if err != nil {
		return err
	}
	r.in, r.buf, r.left = in, bufio.NewReaderSize(in, 1<<20), int64(a.rows)
	if a.rowsFirst {
		return nil
	}
	if err := skip(r.buf, int64(r.layer)*r.left*int64(a.rowBytes())); err != nil {
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

// after makes an opener that skips the first bytes.
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
