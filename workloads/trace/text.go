package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// maxLine bounds a line of text: 32 ids with weights have below 1 KB.
const maxLine = 1 << 16

// lines is a text file that is read row by row. The first row is parsed ahead
// to learn the shape.
type lines struct {
	f       *os.File
	parse   func() (ids []int32, weights []float32, err error)
	ids     []int32
	weights []float32
	err     error // of the row ahead
}

// reader makes a Reader of rows that all look like the first.
func (l *lines) reader() (*Reader, error) {
	l.ahead()
	if l.err != nil {
		l.f.Close()
		if l.err == io.EOF {
			l.err = errors.New("no rows")
		}
		return nil, l.err
	}
	k, weights := len(l.ids), l.weights != nil
	if k > MaxTopK || weights && len(l.weights) != k {
		l.f.Close()
		return nil, fmt.Errorf("row 0: %d ids and %d weights, use 1 to %d and as many weights or none", k, len(l.weights), MaxTopK)
	}
	r := &Reader{Kind: IDs, TopK: k, Rows: -1, Weights: weights, close: l.f.Close}
	row := 0
	r.next = func(ids []int32, ws []float32) (n int, err error) {
		for ; n < len(ids)/k; n++ {
			if l.err != nil {
				return n, l.err
			}
			if len(l.ids) != k || weights != (l.weights != nil) || weights && len(l.weights) != k {
				return n, fmt.Errorf("row %d: %d ids and %d weights, row 0 has %d", row, len(l.ids), len(l.weights), k)
			}
			copy(ids[n*k:], l.ids)
			if ws != nil {
				copy(ws[n*k:], l.weights)
			}
			row++
			l.ahead()
		}
		return n, nil
	}
	return r, nil
}

func (l *lines) ahead() { l.ids, l.weights, l.err = l.parse() }

func goodWeight(w float64) bool { return w >= 0 && !math.IsInf(w, 1) }
