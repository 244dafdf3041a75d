// Package trace reads and writes traces: files in which an inference program has recorded which
// experts its tokens selected. A trace holds the experts of each token, or only the number of
// selections of each expert.
//
// A trace may be larger than memory, and it is not trusted. A damaged or malicious file causes an
// error, and the memory that reading takes is bounded.
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
	Logits Kind = "logits" // router logits of each token, [tokens, experts]; a Reader returns the ids with the largest logits
)

// MaxTopK, MaxExperts and maxLayers are the largest sizes of a trace.
const (
	MaxTopK    = 32
	MaxExperts = 65536
	maxLayers  = 10_000
)

// Options says what to read from a file and what its arrays hold.
type Options struct {
	Kind  Kind   // what the array holds; if "", its name or its shape decides
	Layer int    // the layer of the model to read; -1 if the file has only one layer
	Array string // the name of the array in a file of several arrays; if "", the first known name is taken
	Axes  []Axis // what the axes of the array mean; if nil, the name of the array decides
	TopK  int    // for logits: the number of ids of each token
}

// Reader reads one trace, piece by piece. If Kind is IDs, call Read; if it is Counts, call ReadCounts.
type Reader struct {
	Kind    Kind
	TopK    int  // number of ids in a row, which is one token; 0 for counts
	Weights bool // the trace also has the router weight of each selection

	// next fills ids and weights with whole rows and returns the number of rows. After the last row it returns io.EOF.
	next   func(ids []int32, weights []float32) (int, error)
	counts func() ([]int64, error)
	close  func() error
	path   string
	layer  int     // number of the layer; -1 if the file has no layers
	guess  string  // added to an error if Kind is a guess; it says what the user can do if the guess is wrong
	row    int64   // number of the next row
	start  int64   // number of the first row in the current file
	seen   []int64 // [expert] number of the last row that had the expert, plus 1
	notes  []string
	ranks  []int                      // the ranks (GPUs) that the file names
	verify func(counts []int64) error // compares the counts of all ids with counts that the file also has; may be nil

	// localExperts is true if a file has the counts of only those experts that one rank holds. The counts of several
	// ranks are then for different experts and must not be added up.
	localExperts bool

	recordedLayers func() []int // lists the layers for which something was recorded; nil if the file has no layers
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

// Read reads the next rows. It fills ids [n*TopK] and returns the number n of rows. The ids of a row
// are different from each other and below MaxExperts. An id of -1 means that the token made no
// selection at this place. Read also fills weights [n*TopK], if weights is not nil and the trace has
// weights. After the last row the error is io.EOF.
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

// check returns an error if an id is outside the bounds, or is twice in a row.
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

// ReadCounts returns the number of selections of each expert, [experts]. It returns an error if
// nothing was recorded for the layer.
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
	Masked  int64 // number of ids that are -1
	Weights bool
	Counts  []int64 // [largest id + 1] number of selections of each expert
}

// Scan reads the rest of a trace and returns its totals. If w is not nil, it also writes the rows to w. The memory that it
// takes does not depend on the size of the trace.
func (r *Reader) Scan(w Writer) (Summary, error) {
	s := Summary{Kind: r.Kind, TopK: r.TopK, Weights: r.Weights}
	if r.Kind == Counts {
		var err error
		s.Counts, err = r.ReadCounts()
		return s, err
	}
	counts := make([]int64, MaxExperts+1) // the last element counts the ids that are -1
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

// nothingRecorded returns an error that names the layers for which something was recorded.
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

// spans returns a text that names layers, such as "layers 3 to 42 have counts".
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

// scanRows is the number of rows that Scan reads at a time.
const scanRows = 1 << 14
