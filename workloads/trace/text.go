package trace

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
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

func goodWeight(w float64) bool { return w >= 0 && !math.IsInf(w, 1) }

// csvCounts reads the whole file: one number for each layer and expert.
func csvCounts(cr *csv.Reader, head []string, o Options) (*Reader, error) {
	col := func(name string) int { return slices.Index(head, name) }
	layer, expert, count := col("layer_id"), col("expert_id"), col("count")
	if expert < 0 {
		return nil, errors.New("counts need a header: expert_id,count or layer_id,expert_id,count")
	}
	t := countTable{layers: map[int]map[int]int64{}}
	for {
		rec, err := cr.Read()
		if err == io.EOF {
			return t.reader(o)
		}
		if err != nil {
			return nil, csvError(err)
		}
		line, _ := cr.FieldPos(0)
		l := 0
		if layer >= 0 {
			if l, err = strconv.Atoi(rec[layer]); err != nil || l < 0 || l > 10_000 {
				return nil, fmt.Errorf("line %d: layer %.20q is outside 0 to 10000", line, rec[layer])
			}
		}
		e, err := strconv.Atoi(rec[expert])
		if err != nil || e < 0 || e >= MaxExperts {
			return nil, fmt.Errorf("line %d: expert %.20q is outside 0 to %d", line, rec[expert], MaxExperts-1)
		}
		n, err := strconv.ParseInt(rec[count], 10, 64)
		if err != nil || n < 0 || n > maxCount {
			return nil, fmt.Errorf("line %d: %.20q is not a count", line, rec[count])
		}
		if err := t.add(l, e, n); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// countTable is counts by layer and expert. Its size is that of the file.
type countTable struct {
	layers map[int]map[int]int64
	last   int // highest layer
}

func (t *countTable) add(layer, expert int, n int64) error {
	if t.layers[layer] == nil {
		t.layers[layer] = map[int]int64{}
	}
	t.last = max(t.last, layer)
	if t.layers[layer][expert] += n; t.layers[layer][expert] > maxCount {
		return fmt.Errorf("expert %d: more than %d visits", expert, int64(maxCount))
	}
	return nil
}

func (t *countTable) reader(o Options) (*Reader, error) {
	if err := checkLayer(t.last+1, o.Layer); err != nil {
		return nil, err
	}
	experts := 0
	for _, byExpert := range t.layers {
		for e := range byExpert {
			experts = max(experts, e+1)
		}
	}
	if experts == 0 {
		return nil, errors.New("no rows")
	}
	out := make([]int64, experts)
	for e, n := range t.layers[max(o.Layer, 0)] {
		out[e] = n
	}
	return &Reader{Kind: Counts, counts: func() ([]int64, error) { return out, nil }}, nil
}

// openJSONL reads a token a line: an array of ids, or an object with topk_ids
// and maybe topk_weights. Other keys are left alone: recorders add their own.
func openJSONL(path string, _ Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 4096), maxLine)
	line := 0
	l := &lines{f: f}
	l.parse = func() ([]int32, []float32, error) {
		for sc.Scan() {
			line++
			if text := strings.TrimSpace(sc.Text()); text != "" {
				ids, ws, err := parseJSONRow(text)
				if err != nil {
					return nil, nil, fmt.Errorf("line %d: %w", line, err)
				}
				return ids, ws, nil
			}
		}
		if errors.Is(sc.Err(), bufio.ErrTooLong) {
			return nil, nil, fmt.Errorf("line %d: longer than %d bytes", line+1, maxLine)
		}
		if sc.Err() != nil {
			return nil, nil, sc.Err()
		}
		return nil, nil, io.EOF
	}
	return l.reader()
}

func parseJSONRow(text string) ([]int32, []float32, error) {
	var row struct {
		IDs     []int32   `json:"topk_ids"`
		Weights []float32 `json:"topk_weights"`
	}
	var target any = &row
	if text[0] == '[' {
		target = &row.IDs
	}
	if err := json.Unmarshal([]byte(text), target); err != nil {
		return nil, nil, fmt.Errorf("%.80s", err)
	}
	if len(row.IDs) == 0 {
		return nil, nil, errors.New(`no "topk_ids"`)
	}
	for _, w := range row.Weights {
		if !goodWeight(float64(w)) {
			return nil, nil, fmt.Errorf("%v is not a weight", w)
		}
	}
	return row.IDs, row.Weights, nil
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
