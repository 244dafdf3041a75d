// Package trace reads and writes recorded routing: the experts that each token selected, or the
// number of selections of each expert. Files may be larger than memory and are not trusted: a bad
// file gives an error, in bounded memory.
package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Kind says what a trace records.
type Kind string

const (
	IDs    Kind = "ids"    // the expert ids of each token, [tokens, top-k]
	Counts Kind = "counts" // the number of selections of each expert, [experts]
	Logits Kind = "logits" // router logits of each token, [tokens, experts], read as the ids of the top-k
)

// Bounds of a trace, equal to those of a problem.
const (
	MaxTopK    = 32
	MaxExperts = 65536
	maxLayers  = 10_000
)

// Options says what to read from a file and what its arrays hold.
type Options struct {
	Kind  Kind   // "": by the array's name or shape
	Layer int    // -1 if there is one layer
	Array string // name in an archive; "": the first known name
	Axes  []Axis // nil: by the array's name
	TopK  int    // ids to make from the logits of a token
}

// Reader streams one trace. Use Read for ids and ReadCounts for counts.
type Reader struct {
	Kind    Kind
	TopK    int  // ids in a row; 0 for counts
	Weights bool // rows have router weights

	// next fills ids and weights with whole rows and returns their number.
	// After the last row the error is io.EOF.
	next   func(ids []int32, weights []float32) (int, error)
	counts func() ([]int64, error)
	close  func() error
	path   string
	layer  int     // -1 for none
	guess  string  // the end of an error, if the kind was guessed wrong
	row    int64   // of the next row
	start  int64   // of the first row in the current file
	seen   []int64 // [expert] one more than its last row
	notes  []string
	ranks  []int                      // ranks that the file names
	verify func(counts []int64) error // compares all ids with the file's counts

	// localExperts says that counts are of one rank's experts, to be joined, not added up.
	localExperts bool

	recordedLayers func() []int // layers with counts or ids; nil without layers
}

// Notes returns remarks about how the file was read.
func (r *Reader) Notes() []string { return r.notes }

func (r *Reader) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// Read fills ids [n*TopK] with the next rows and returns their number n. Ids are
// distinct within a row and below MaxExperts, or -1 if masked. weights
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

// check refuses ids outside the bounds or twice in one row.
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
					return fmt.Errorf("row %d: an expert id beyond %d%s", stamp-1-r.start, math.MaxInt32, r.guess)
				}
				return fmt.Errorf("row %d: expert %d is outside 0 to %d; only -1 stands for a masked selection%s", stamp-1-r.start, e, MaxExperts-1, r.guess)
			}
			if r.seen[e] == stamp {
				return fmt.Errorf("row %d: expert %d is there twice%s", stamp-1-r.start, e, r.guess)
			}
			r.seen[e] = stamp
		}
	}
	return nil
}

// ReadCounts returns the number of selections of each expert, [experts]. A layer in which nothing
// was recorded is an error.
func (r *Reader) ReadCounts() ([]int64, error) {
	if r.Kind != Counts {
		return nil, errors.New("the trace has ids, not counts")
	}
	c, err := r.counts()
	if err == nil && !slices.ContainsFunc(c, func(n int64) bool { return n > 0 }) {
		err = r.nothingRecorded("")
	}
	return c, at(r.path, err)
}

// Summary holds the totals of a trace.
type Summary struct {
	Kind    Kind
	Rows    int64 // tokens; 0 for counts
	TopK    int
	Masked  int64 // masked selections (id -1)
	Weights bool
	Counts  []int64 // [highest id + 1] selections of each expert
}

// Scan reads the rest of a trace in constant memory, and copies ids to w if it is not nil.
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
	if end == 0 && s.Rows > 0 {
		return s, at(r.path, r.nothingRecorded(fmt.Sprintf("all %d selections are masked: ", s.Masked)))
	}
	if r.verify != nil {
		return s, at(r.path, r.verify(s.Counts))
	}
	return s, nil
}

// nothingRecorded returns an error that names the layers with counts.
func (r *Reader) nothingRecorded(why string) error {
	if r.recordedLayers == nil {
		return errors.New(why + "nothing was recorded")
	}
	layers := r.recordedLayers()
	switch {
	case len(layers) == 0:
		return errors.New(why + "nothing was recorded in any layer")
	case r.layer < 0:
		return errors.New(why + "nothing was recorded")
	}
	return fmt.Errorf("%snothing was recorded in layer %d; %s", why, r.layer, spans(layers))
}

// spans spells layers with counts: "layers 3 to 42 have counts".
func spans(layers []int) string {
	var parts []string
	for i := 0; i < len(layers); {
		j := i
		for j+1 < len(layers) && layers[j+1] == layers[j]+1 {
			j++
		}
		switch {
		case i == j:
			parts = append(parts, fmt.Sprint(layers[i]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", layers[i], layers[j]))
		}
		i = j + 1
	}
	if len(layers) == 1 {
		return "layer " + parts[0] + " has counts"
	}
	return "layers " + strings.Join(parts, ", ") + " have counts"
}

const scanRows = 1 << 14
