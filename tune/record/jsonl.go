package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

const maxLine = 8 << 20

// The constants bound a log. A log may have fewRounds rounds. It may have more if its rounds take at least
// leastRoundSize bytes each on average.
const (
	maxCases       = 20_000
	fewRounds      = 1 << 19
	leastRoundSize = 20
)

// AppendJSON appends r to b as one line of trials.jsonl, newline included. It refuses a line that Reader cannot read.
func (r *Result) AppendJSON(b []byte) ([]byte, error) {
	line := *r
	line.Schema = Schema
	line.Time = r.Time.UTC().Truncate(time.Millisecond)
	if !(r.MaxErr <= math.MaxFloat64) { // JSON has neither NaN nor infinity
		line.MaxErr = math.MaxFloat64
	}
	seconds := r.Seconds
	line.Seconds = nil
	head, err := json.Marshal(&line)
	if err != nil {
		return b, fmt.Errorf("%s: %w", TrialsFile, err)
	}
	start := len(b)
	b = append(b, head...)
	if len(seconds) > 0 {
		b = append(b[:len(b)-1], `,"seconds":`...)
		if b, err = appendSeconds(b, seconds); err != nil {
			return b, err
		}
		b = append(b, '}')
	}
	if n := len(b) - start; n > maxLine {
		return b[:start], fmt.Errorf("%s: a line of %d bytes, and at most %d can be read again; measure fewer rounds in a block", TrialsFile, n, maxLine)
	}
	return append(b, '\n'), nil
}

func appendSeconds(b []byte, rounds [][]float64) ([]byte, error) {
	b = append(b, '[')
	for i, ranks := range rounds {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, s := range ranks {
			if !(s >= 0) || math.IsInf(s, 0) {
				return b, fmt.Errorf("%s: seconds: %v in round %d of rank %d is not a duration", TrialsFile, s, i, j)
			}
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendFloat(b, s, 'g', -1, 64)
		}
		b = append(b, ']')
	}
	return append(b, ']'), nil
}

// Reader reads trials.jsonl. An unknown, doubled or mistyped field is an error. Reader skips a last line without a
// newline, see Torn.
type Reader struct {
	in    *bufio.Reader
	dec   *decoder
	long  []byte
	line  int   // from 1
	bytes int64 // in whole lines so far
	torn  int   // bytes after the last newline

	cases  map[caseID]struct{}
	rounds int64
}

type caseID struct {
	problem ep.Problem
	routing string
	seed    uint64
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 256<<10), dec: newDecoder(), cases: map[caseID]struct{}{}}
}

// Read fills r with the next line and returns io.EOF at the end. Do not change problems and configs: equal ones share
// memory.
func (d *Reader) Read(r *Result) error {
	line, err := d.next()
	if err != nil {
		return err
	}
	d.line++
	d.bytes += int64(len(line))
	if err := d.dec.decode(line[:len(line)-1], r); err != nil {
		return fmt.Errorf("%s: line %d: %w; keep only the lines before it (head -n %d), and run sweep --resume to measure the rest again", TrialsFile, d.line, err, d.line-1)
	}
	return d.count(r)
}

func (d *Reader) count(r *Result) error {
	d.cases[caseID{r.Problem, r.Routing, r.Seed}] = struct{}{}
	if len(d.cases) > maxCases {
		return fmt.Errorf("%s: line %d: more than %d problems and routings", TrialsFile, d.line, maxCases)
	}
	if d.rounds += int64(len(r.Seconds)); d.rounds > max(fewRounds, d.bytes/leastRoundSize) {
		return fmt.Errorf("%s: line %d: %d rounds in %d bytes; a round has at least %d bytes in a long log", TrialsFile, d.line, d.rounds, d.bytes, leastRoundSize)
	}
	return nil
}

func (d *Reader) next() ([]byte, error) {
	line, err := d.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		d.long = append(d.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(d.long) > maxLine {
				return nil, fmt.Errorf("%s: line %d: longer than %d MiB", TrialsFile, d.line+1, maxLine>>20)
			}
			line, err = d.in.ReadSlice('\n')
			d.long = append(d.long, line...)
		}
		line = d.long
	}
	if err == io.EOF {
		d.torn = len(line)
	}
	return line, err
}

// Torn returns a warning about an unfinished last line, or nil. Call it after Read has returned io.EOF.
func (d *Reader) Torn() error {
	if d.torn == 0 {
		return nil
	}
	return fmt.Errorf("%s: the last line is torn after %d bytes and was skipped; sweep --resume measures it again", TrialsFile, d.torn)
}

// Offset returns the number of bytes in whole lines so far.
func (d *Reader) Offset() int64 { return d.bytes }

// ReadAll reads a whole log. `torn` is the warning of Reader.Torn.
func ReadAll(in io.Reader) (results []Result, torn error, err error) {
	d := NewReader(in)
	for {
		var r Result
		switch err := d.Read(&r); err {
		case nil:
			results = append(results, r)
		case io.EOF:
			return results, d.Torn(), nil
		default:
			return nil, nil, err
		}
	}
}
