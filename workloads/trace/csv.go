package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// openCSV reads one token per line and one id per column, with an optional header. The first column
// whose name begins with w, and all columns after it, hold weights. A file with a column named
// "count" holds counts.
//
// openCSV does not use encoding/csv, which holds a quoted field of any length in memory.
func openCSV(path string, o Options) (*Reader, error) {
	return openText(path, func(l *lines, first string) (*Reader, error) {
		head := fields(first)
		if slices.Contains(head, "count") {
			return csvCounts(l, head, o)
		}
		if o.Kind == Counts {
			return nil, errCountsHeader
		}
		ids := len(head)
		if _, err := strconv.ParseFloat(head[0], 64); err != nil {
			if w := slices.IndexFunc(head, func(s string) bool { return strings.HasPrefix(s, "w") }); w >= 0 {
				ids = w
			}
			if first, err = l.next(); err != nil {
				return nil, noRows(err)
			}
		}
		return l.tokens(first, func(text string) ([]int32, []float32, error) { return parseRow(fields(text), ids, len(head)) })
	})
}

func openText(path string, read func(l *lines, first string) (*Reader, error)) (*Reader, error) {
	l, err := openLines(path)
	if err != nil {
		return nil, err
	}
	var r *Reader
	first, err := l.next()
	if err == nil {
		r, err = read(l, first)
	}
	if r == nil || r.close == nil {
		l.f.Close()
	}
	return r, noRows(err)
}

func noRows(err error) error {
	if err == io.EOF {
		return errors.New("no rows")
	}
	return err
}

func fields(text string) []string {
	out := strings.Split(text, ",")
	for i, f := range out {
		if f = strings.TrimSpace(f); len(f) > 1 && f[0] == '"' && f[len(f)-1] == '"' {
			f = f[1 : len(f)-1]
		}
		out[i] = f
	}
	return out
}

func parseRow(row []string, ids, columns int) ([]int32, []float32, error) {
	if len(row) != columns {
		return nil, nil, fmt.Errorf("%d fields, the first line has %d", len(row), columns)
	}
	out, ws := make([]int32, ids), []float32(nil)
	for i, s := range row {
		if i < ids {
			v, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				return nil, nil, fmt.Errorf("%.20q is not an expert id", s)
			}
			out[i] = int32(v)
			continue
		}
		v, err := strconv.ParseFloat(s, 32)
		if err != nil || !goodWeight(v) {
			return nil, nil, fmt.Errorf("%.20q is not a weight", s)
		}
		ws = append(ws, float32(v))
	}
	return out, ws, nil
}

var errCountsHeader = errors.New("counts need a header: expert_id,count or layer_id,expert_id,count")

// csvCounts reads lines of layer_id,expert_id,count, as SGLang once wrote them.
func csvCounts(l *lines, head []string, o Options) (*Reader, error) {
	layer, expert, count := slices.Index(head, "layer_id"), slices.Index(head, "expert_id"), slices.Index(head, "count")
	if expert < 0 {
		return nil, errCountsHeader
	}
	sum, totals := make([]int64, MaxExperts), []int64(nil)
	layers, experts, chosen := 0, 0, max(o.Layer, 0)
	for {
		text, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		row := fields(text)
		if len(row) != len(head) {
			return nil, fmt.Errorf("line %d: %d fields, the first line has %d", l.number, len(row), len(head))
		}
		at := [2]int{}
		if layer >= 0 {
			if at[0], err = strconv.Atoi(row[layer]); err != nil || at[0] < 0 || at[0] > maxLayers {
				return nil, fmt.Errorf("line %d: layer %.20q is outside 0 to %d", l.number, row[layer], maxLayers)
			}
		}
		if at[1], err = strconv.Atoi(row[expert]); err != nil || at[1] < 0 || at[1] >= MaxExperts {
			return nil, fmt.Errorf("line %d: expert %.20q is outside 0 to %d", l.number, row[expert], MaxExperts-1)
		}
		n, err := strconv.ParseInt(row[count], 10, 64)
		if err != nil || n < 0 || n > maxCount {
			return nil, fmt.Errorf("line %d: %.20q is not a count", l.number, row[count])
		}
		if at[0] == chosen {
			if sum[at[1]] += n; sum[at[1]] > maxCount {
				return nil, fmt.Errorf("line %d: expert %d: more than %d selections", l.number, at[1], int64(maxCount))
			}
		}
		for len(totals) <= at[0] {
			totals = append(totals, 0)
		}
		totals[at[0]] = min(totals[at[0]]+n, maxCount)
		layers, experts = max(layers, at[0]+1), max(experts, at[1]+1)
	}
	if experts == 0 {
		return nil, io.EOF
	}
	r := &Reader{
		Kind:           Counts,
		counts:         func() ([]int64, error) { return sum[:experts], nil },
		recordedLayers: func() []int { return withSelections(totals) },
	}
	r.noteTotals(o.Layer, totals)
	return r, checkLayer(layers, o.Layer)
}
