package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// rows streams one layer of arrays, part after part. A part is [tokens, k],
// [layers, tokens, k] (SGLang) or [tokens, layers, k] (vLLM's routed_experts).
type rows struct {
	parts []*array
	layer int
	k     int
	rows  int64

	part int           // being read
	in   io.ReadCloser // nil between parts
	buf  *bufio.Reader
	left int64 // rows of this part
	raw  []byte
}

func newRows(parts []*array, o Options) (*rows, error) {
	r := &rows{parts: parts, layer: o.Layer}
	for i, a := range parts {
		nd := len(a.shape)
		if nd != 2 && nd != 3 {
			return nil, fmt.Errorf("shape %v: ids are [tokens, top-k] or have an axis of layers before", a.shape)
		}
		k := a.shape[nd-1]
		if k < 1 || k > MaxTopK {
			return nil, fmt.Errorf("shape %v: top-k is outside 1 to %d", a.shape, MaxTopK)
		}
		if i > 0 && k != r.k {
			return nil, fmt.Errorf("shape %v: top-k was %d before", a.shape, r.k)
		}
		if err := checkLayer(a.layers(), o.Layer); err != nil {
			return nil, err
		}
		r.k, r.rows = k, r.rows+a.tokens()
	}
	return r, nil
}

func (a *array) layers() int {
	switch {
	case len(a.shape) < 3:
		return 1
	case a.tokensFirst:
		return a.shape[1]
	}
	return a.shape[0]
}

func (a *array) tokens() int64 {
	if len(a.shape) == 3 && !a.tokensFirst {
		return int64(a.shape[1])
	}
	return int64(a.shape[0])
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
	for r.left == 0 {
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
	a := r.parts[r.part-1]
	n := int(min(int64(max(len(ids), len(weights))/r.k), r.left))
	size := r.k * a.elem.size
	if cap(r.raw) < n*size {
		r.raw = make([]byte, n*size)
	}
	raw := r.raw[:n*size]
	if err := r.fill(a, raw, size); err != nil {
		return 0, err
	}
	if ids != nil {
		a.elem.int32s(ids[:n*r.k], raw)
	}
	for i := range weights[:min(len(weights), n*r.k)] {
		w := a.elem.float(raw[i*a.elem.size:])
		if !goodWeight(w) {
			return 0, fmt.Errorf("weight %v is not a number of at least 0", w)
		}
		weights[i] = float32(w)
	}
	r.left -= int64(n)
	return n, nil
}

// fill reads the bytes of rows and skips the other layers between them.
func (r *rows) fill(a *array, raw []byte, size int) error {
	if len(a.shape) < 3 || !a.tokensFirst {
		_, err := io.ReadFull(r.buf, raw)
		return truncated(err, r.left)
	}
	for ; len(raw) > 0; raw = raw[size:] {
		err := skip(r.buf, int64(r.pick()*size))
		if err == nil {
			_, err = io.ReadFull(r.buf, raw[:size])
		}
		if err == nil {
			err = skip(r.buf, int64((a.layers()-1-r.pick())*size))
		}
		if err != nil {
			return truncated(err, r.left)
		}
	}
	return nil
}

// pick is the layer to read: the chosen one, or the only one.
func (r *rows) pick() int { return max(r.layer, 0) }

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
	if a.tokens() == 0 {
		return nil
	}
	in, err := a.open()
	if err != nil {
		return err
	}
	r.in, r.buf = in, bufio.NewReaderSize(in, 1<<20)
	r.left = a.tokens()
	if len(a.shape) == 3 && !a.tokensFirst {
		return truncated(skip(r.buf, int64(r.pick())*r.left*int64(r.k*a.elem.size)), r.left)
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
			return nil, errors.Join(err, in.Close())
		}
		return in, nil
	}
}

// truncated explains data that end before the array does.
func truncated(err error, left int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated: the data ends within the last %d rows that the header promises", left)
	}
	return err
}
