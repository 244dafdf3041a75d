package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// openCSV reads a column an id, without a header; or with a header in which
// columns that begin with w are weights. A header with a column count, as
// SGLang's recorder once wrote (layer_id, expert_id, count), makes it counts.
func openCSV(path string, o Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	cr := csv.NewReader(&guard{r: bufio.NewReaderSize(f, 1<<20)})
	cr.ReuseRecord = true
	first, err := cr.Read()
	if err != nil {
		f.Close()
		return nil, csvError(err)
	}
	head := slices.Clone(first)
	if i := slices.Index(head, "count"); i >= 0 {
		defer f.Close()
		return csvCounts(cr, head, o)
	}
	if o.Kind == Counts {
		f.Close()
		return nil, errors.New("counts need a header: expert_id,count or layer_id,expert_id,count")
	}
	l := &lines{f: f}
	ids, pending := len(head), first
	if _, err := strconv.ParseFloat(strings.TrimSpace(head[0]), 64); err != nil {
		if ids = slices.IndexFunc(head, func(s string) bool { return strings.HasPrefix(s, "w") }); ids < 0 {
			ids = len(head)
		}
		pending = nil
	}
	l.parse = func() ([]int32, []float32, error) {
		rec := pending
		if pending = nil; rec == nil {
			var err error
			if rec, err = cr.Read(); err != nil {
				return nil, nil, csvError(err)
			}
		}
		line, _ := cr.FieldPos(0)
		return parseRow(rec, ids, line)
	}
	return l.reader()
}

func csvError(err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "\n", " "))
}

func parseRow(rec []string, ids, line int) ([]int32, []float32, error) {
	out := make([]int32, ids)
	for i := range out {
		v, err := strconv.ParseInt(strings.TrimSpace(rec[i]), 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %.20q is not an expert id", line, rec[i])
		}
		out[i] = int32(v)
	}
	if ids == len(rec) {
		return out, nil, nil
	}
	ws := make([]float32, len(rec)-ids)
	for i := range ws {
		v, err := strconv.ParseFloat(strings.TrimSpace(rec[ids+i]), 32)
		if err != nil || !goodWeight(v) {
			return nil, nil, fmt.Errorf("line %d: %.20q is not a weight", line, rec[ids+i])
		}
		ws[i] = float32(v)
	}
	return out, ws, nil
}

// guard refuses lines that encoding/csv would keep in memory whole.
type guard struct {
	r    io.Reader
	line int
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	for _, c := range p[:n] {
		if g.line++; c == '\n' {
			g.line = 0
		}
		if g.line > maxLine {
			return 0, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
	}
	return n, err
}
