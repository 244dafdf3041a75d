// Package trace reads and writes traces: files in which an inference program has recorded which
// experts its tokens selected. A trace holds the experts of each token, or only the number of
// selections of each expert.
//
// A trace may be larger than memory, and is not trusted: a damaged or malicious file causes an
// error, and reading takes bounded memory.
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
	IDs    Kind = "ids"    // expert ids [tokens, top-k]
	Counts Kind = "counts" // selections of each expert, [experts]
	Logits Kind = "logits" // router logits [tokens, experts], read as ids
)

// MaxTopK, MaxExperts and maxLayers are the largest sizes of a trace.
const (
	MaxTopK    = 32
	MaxExperts = 65536
	maxLayers  = 10_000
)

// Options says what to read from a file and what its arrays hold.
type Options struct {
	Kind  Kind   // if "", name or shape of the array decides
	Layer int    // layer to read; -1 if the file has only one
	Array string // name of the array to read; if "", the first known name in the file
	Axes  []Axis // if nil, the name of the array decides
	TopK  int    // for logits: ids per token
}

// Reader reads one trace, piece by piece. If Kind is IDs, call Read; if Kind is Counts, call
// ReadCounts.
type Reader struct {
	Kind    Kind
	TopK    int  // ids of a row (token); 0 for counts
	Weights bool // true if there are router weights

	// next fills ids and weights with whole rows. next returns the number of rows, and at last
	// io.EOF.
	next   func(ids []int32, weights []float32) (int, error)
	counts func() ([]int64, error)
	close  func() error
	path   string
	layer  int    // -1 if the file has no layers
	guess  string // advice in errors if Kind is a guess
	row    int64
	start  int64   // first row of the current file
	seen   []int64 // [expert] last row with the expert, plus 1
	notes  []string
	ranks  []int                      // ranks (GPUs) that the file names
	verify func(counts []int64) error // compares with recorded counts; may be nil

	// localExperts is true if the counts are for the experts of one rank only. Counts of several
	// ranks must then not be added up.
	localExperts bool

	recordedLayers func() []int // layers with records; nil without layers
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

// Read fills ids [n*TopK] with the next rows and returns the number n of rows. The ids of a row are
// different and below MaxExperts; -1 stands for a masked selection. Read also fills weights
// [n*TopK], if weights is not nil and the trace has weights. After the last row the error is
// io.EOF.
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

// ReadCounts returns the number of selections of each expert, [experts], or an error if all are 0.
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
	Rows    int64 // 0 for counts
	TopK    int
	Masked  int64
	Weights bool
	Counts  []int64 // [largest id + 1] selections of each expert
}

// Scan reads the rest of a trace and returns its totals. If w is not nil, Scan also writes the rows
// to w. The memory does not grow with the trace.
func (r *Reader) Scan(w Writer) (Summary, error) {
	s := Summary{Kind: r.Kind, TopK: r.TopK, Weights: r.Weights}
	if r.Kind == Counts {
		var err error
		s.Counts, err = r.ReadCounts()
		return s, err
	}
	counts := make([]int64, MaxExperts+1) // the last element counts masked selections
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
