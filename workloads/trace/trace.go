// Package trace reads and writes recorded routing: which experts each token
// selected, or how often each expert was selected. Files may be larger than
// memory. They are not trusted: a bad one gives an error, in bounded memory.
package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Kind says what a trace records.
type Kind string

const (
	IDs    Kind = "ids"    // the expert ids of each token, [tokens, top-k]
	Counts Kind = "counts" // how often each expert was selected, [experts]
)

// Bounds of what is read. A problem has the same ones (ep.MaxTopK, ep.MaxExperts).
const (
	MaxTopK    = 32
	MaxExperts = 65536
)

// Options choose what to read of a file that holds more than one trace.
type Options struct {
	Kind  Kind   // "" decides by the name of the array, else by its shape
	Layer int    // for arrays with an axis of layers; -1 when there is one
	Array string // of an archive; "" takes the first array with a known name

	// TokensFirst says that three axes of ids are [tokens, layers, top-k], as
	// vLLM returns routed experts, and not [layers, tokens, top-k].
	TokensFirst bool
}

// Reader streams one trace. Read is for ids, ReadCounts for counts.
type Reader struct {
	Kind    Kind
	TopK    int  // ids of a row; 0 for counts
	Weights bool // rows have router weights

	// next fills ids and weights with whole rows and returns their number.
	// After the last row the error is io.EOF.
	next   func(ids []int32, weights []float32) (int, error)
	counts func() ([]int64, error)
	close  func() error
	path   string
	guess  string  // appended to errors: what to do if the kind was guessed wrong
	row    int64   // of the next Read
	seen   []int64 // [expert]: the last row it was in, plus one
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// Read fills ids [n*TopK] with the next rows and returns their number n. Ids are
// distinct within a row and below MaxExperts, or -1 where masked. weights
// [n*TopK] is filled too if it is not nil and the trace has weights. After the
// last row the error is io.EOF.
func (r *Reader) Read(ids []int32, weights []float32) (int, error) {
	if r.Kind != IDs {
		return 0, errors.New("the trace has counts, not ids")
	}
	n, err := r.next(ids, weights)
	if bad := r.check(ids[:n*r.TopK]); bad != nil {
		return 0, at(r.path, bad)
	}
	r.row += int64(n)
	return n, at(r.path, err)
}

// check refuses ids that are outside the bounds or twice in one row.
func (r *Reader) check(ids []int32) error {
	if r.seen == nil {
		r.seen = make([]int64, MaxExperts)
	}
	stamp := r.row
	for i := 0; i < len(ids); i += r.TopK {
		stamp++
		for _, e := range ids[i : i+r.TopK] {
			if uint32(e) >= MaxExperts {
				if e == -1 {
					continue
				}
				if e == math.MinInt32 {
					return fmt.Errorf("row %d: an expert id beyond %d%s", stamp-1, math.MaxInt32, r.guess)
				}
				return fmt.Errorf("row %d: expert %d is outside 0 to %d, and only -1 is masked%s", stamp-1, e, MaxExperts-1, r.guess)
			}
			if r.seen[e] == stamp {
				return fmt.Errorf("row %d: expert %d is there twice%s", stamp-1, e, r.guess)
			}
			r.seen[e] = stamp
		}
	}
	return nil
}

// ReadCounts is how often each expert was selected, [experts].
func (r *Reader) ReadCounts() ([]int64, error) {
	if r.Kind != Counts {
		return nil, errors.New("the trace has ids, not counts")
	}
	c, err := r.counts()
	return c, at(r.path, err)
}

// Summary is what Scan found in a trace.
type Summary struct {
	Kind    Kind
	Rows    int64 // tokens; 0 for counts
	TopK    int   // 0 for counts
	Masked  int64 // selections that are -1
	Weights bool
	Counts  []int64 // [highest id + 1]
}

// Scan reads the rest of a trace in constant memory. Rows of ids are also
// written to w when it is not nil.
func (r *Reader) Scan(w Writer) (Summary, error) {
	s := Summary{Kind: r.Kind, TopK: r.TopK, Weights: r.Weights}
	if r.Kind == Counts {
		var err error
		s.Counts, err = r.ReadCounts()
		return s, err
	}
	counts := make([]int64, MaxExperts+1) // the last one is masked
	ids, ws := make([]int32, scanRows*r.TopK), []float32(nil)
	if r.Weights && w != nil {
		ws = make([]float32, len(ids))
	}
	for {
		n, err := r.Read(ids, ws)
		if n > 0 && w != nil {
			if err := w.Write(ids[:n*r.TopK], ws[:min(len(ws), n*r.TopK)]); err != nil {
				return s, err
			}
		}
		for _, e := range ids[:n*r.TopK] {
			counts[min(uint32(e), MaxExperts)]++
		}
		s.Rows += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return s, err
		}
	}
	s.Masked = counts[MaxExperts]
	end := MaxExperts
	for end > 0 && counts[end-1] == 0 {
		end--
	}
	s.Counts = counts[:end]
	if s.Masked > 0 && end == 0 {
		return s, at(r.path, fmt.Errorf("all %d selections are masked: nothing was recorded here", s.Masked))
	}
	return s, nil
}

// scanRows is how many rows are read at once.
const scanRows = 1 << 14
